"""What the client scripts share: the address of the NameNode, names that need care, and checks that say what they saw."""

import os
import random
import sys

NAMENODE = os.environ["HANNO_WEBHDFS"].rstrip("/")  # http://host:port
HOST, PORT = NAMENODE.split("//")[1].split(":")
USER = os.environ["HANNO_WEBHDFS_USER"]
TOKEN = os.environ.get("HANNO_WEBHDFS_TOKEN")  # none where names are believed
# What fsspec, and what OpenDAL, are told of the cluster and of who asks.
FSSPEC = {"host": HOST, "port": int(PORT), **({"token": TOKEN} if TOKEN else {"user": USER})}
OPENDAL = {"endpoint": NAMENODE, **({"delegation": TOKEN} if TOKEN else {"user_name": USER})}
ROOT = "/clients"

# Every character that some client or server has got wrong, and the longest components: 255 bytes.
NAMES = [
    "plain", "with space", "100%", "a%25b", "a%2Fb", "a+b", "a&b", "a=b;c", "a?b", "a#b", "quote'\"", "semi;colon",
    "日本語", "😀", "ümläut", "tilde~_-.", "[brackets]{x}", "back\\slash", "x" * 255, "語" * 85,
]


def fresh(fs, name):
    """An empty folder for the files of one client."""
    base = f"{ROOT}/{name}"
    if fs.exists(base):
        fs.rm(base, recursive=True)
    fs.makedirs(base)
    return base


def equal(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: found {short(found)}, expected {short(expected)}")


def short(value):
    text = repr(value)
    return text if len(text) <= 2000 else f"{text[:2000]}… ({len(text)} characters)"


def fails(call, error, text=""):
    try:
        call()
    except error as raised:
        if text not in str(raised):
            sys.exit(f"expected {text!r} in {raised!r}")
        return
    sys.exit(f"expected {error} with {text!r}, nothing was raised")


def data(size, seed=1):
    """Bytes that do not repeat and are the same in every run."""
    return random.Random(seed).randbytes(size)


def without_globs(names=NAMES):
    """The names that clients which expand patterns take as they are."""
    return [name for name in names if not set(name) & set("*?[]{}\\")]


def escaped(name):
    """As a pattern of Hadoop's that only the name itself matches."""
    return "".join(f"\\{character}" if character in "*?[]{}\\" else character for character in name)
