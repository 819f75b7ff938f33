# Sourced by scripts that run a client's own tests: `unpack PACKAGE [FOLDER]` fetches the source distribution of the version that
# requirements.txt names, unpacks it (or FOLDER of it) into a directory that goes when the script ends, and goes there.
here=$(cd "$(dirname "$0")" && pwd)
python=${HANNO_PYTHON:-python3}

unpack() {
    local version
    version=$(sed -n "s/^$1==//p" "$here/requirements.txt")
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$1" --dest "$work" "$1==$version"
    tar -C "$work" -xzf "$work/$1-$version.tar.gz" "$1-$version${2:+/$2}"
    cd "$work/$1-$version"
}
