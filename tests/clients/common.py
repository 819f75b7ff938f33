"""What the client scripts share: the address of the NameNode, names that need care, and checks that say what they saw."""

import os
import sys

NAMENODE = os.environ["HANNO_WEBHDFS"].rstrip("/")  # http://host:port
HOST, PORT = NAMENODE.split("//")[1].split(":")
USER = os.environ["HANNO_WEBHDFS_USER"]
ROOT = "/clients"

# Every character that some client or server has got wrong.
NAMES = [
    "plain", "with space", "100%", "a%25b", "a%2Fb", "a+b", "a&b", "a=b;c", "a?b", "a#b", "quote'\"", "semi;colon",
    "日本語", "😀", "ümläut", "tilde~_-.", "[brackets]{x}", "back\\slash", "x" * 255,
]


def equal(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: found {found!r}, expected {expected!r}")


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
    import random

    return random.Random(seed).randbytes(size)
