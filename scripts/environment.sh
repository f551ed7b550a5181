# Make the environment that ./run and ./test work in. Sourced by both, from the project's folder, with `set -euo pipefail`.
#
#   environment_base          .venv with what a hub needs, and hedwig-admin
#   environment_development   .venv with the extras and the checks too
#   environment_beside        the same with another Python, beside .venv
#   environment_java          a JDK and Maven, for the servers that tests start
#   environment_terminal      tmux, in which tests look at what is drawn on a terminal, and the shells that complete there
#   environment_kerberos      the extra kerberos, which is compiled, for the long tests; it follows the development one
#
# Each does only what is missing, says in one line what it does, and ends the script with one line when it cannot.

PYTHON_MINIMUM="3, 11"
PYTHONS="3.11 3.12 3.13"  # As in the classifiers of pyproject.toml.
VENV=.venv

say() {
    printf '==> %s\n' "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

apt_install() {
    local packages=() package
    for package in "$@"; do
        # A system release carries a few JDKs only; when it is not this one, its own choice does.
        if [ "$package" = openjdk-17-jdk-headless ] && ! apt-cache show "$package" >/dev/null 2>&1; then
            package=default-jdk-headless
        fi
        packages+=("$package")
    done
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${packages[@]}"
}

# Install Debian packages as root; otherwise name the command to run, and stop.
#   $1 what is missing   $2... packages
system_packages() {
    local missing=$1
    shift
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        fail "$missing is missing; run: sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"
    fi
    say "installing $* with apt-get, because $missing is missing"
    local log
    log=$(mktemp)
    # A source that cannot be refreshed does not matter as long as the packages can be had.
    if ! { apt-get update; apt_install "$@"; } </dev/null >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "apt-get could not install $*: see its last lines above"
    fi
    rm -f "$log"
}

# Print the first Python that is new enough and can make virtual environments; fail without output if there is none.
find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
        # Running it is the only test that counts: a name on the path may be a launcher of a version that is not there.
        if "$candidate" -c "import ensurepip, sys, venv; sys.exit(sys.version_info < ($PYTHON_MINIMUM))" \
            </dev/null >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    return 1
}

make_venv() {
    if $VENV/bin/python -c "import pip, sys; sys.exit(sys.version_info < ($PYTHON_MINIMUM))" >/dev/null 2>&1; then
        return
    fi
    local python
    if ! python=$(find_python); then
        [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is not Python ($PYTHON_MINIMUM) or later with venv; unset it or correct it"
        system_packages "Python 3.11 or later with venv" python3 python3-venv
        python=$(find_python) || fail "the system's python3 is older than 3.11; install a later one and name it: PYTHON=/path/to/python3 $0"
    fi
    say "making $VENV with $("$python" --version)"
    "$python" -m venv --clear "$VENV" || fail "$python could not make $VENV: see its message above"
}

# Print what an installation depends on. The folder is part of it: an environment that was moved points to its old folder.
fingerprint() {
    {
        pwd -P
        $VENV/bin/python --version
        cat locks/development.txt pyproject.toml hatch_build.py hedwig/wire/pubsub.proto metadata/hbase/native/hbase.proto \
            hub/ledgers/bookkeeper/bookkeeper.proto
    } | cksum
}

pip_install() {
    $VENV/bin/python -m pip install --quiet --disable-pip-version-check --no-input "$@" </dev/null ||
        fail "pip could not install ${*: -1}: see its message above"
}

# Install the project, editable, unless this was done for the same inputs.
#   $1 name of the stamp   $2 what pip installs   $3 stamp that covers this one too, or nothing   $4 lock, or nothing
install_project() {
    local stamp=$VENV/hedwig-$1.stamp target=$2 wider=${3:+$VENV/hedwig-$3.stamp} wanted candidate
    (
        # Two runs in one folder take turns instead of installing into each other's environment.
        if command -v flock >/dev/null; then
            flock -n 9 || { say "waiting for another run to finish its installation"; flock -w 1200 9; } ||
                fail "another run has been installing for 20 minutes; end it, or remove $VENV.lock"
        fi
        make_venv
        wanted=$(fingerprint)
        for candidate in "$stamp" $wider; do
            if [ -e hedwig/wire/pubsub_pb2.py ] && [ -e metadata/hbase/native/hbase_pb2.py ] &&
                [ -e hub/ledgers/bookkeeper/bookkeeper_pb2.py ] &&
                [ "$(cat "$candidate" 2>/dev/null)" = "$wanted" ]; then
                exit 0
            fi
        done
        say "installing $target into $VENV with pip"
        if [ -n "${4:-}" ]; then
            pip_install --require-hashes --requirement "$4"
            # The lock has what the build needs too. Isolated, a build would download that without its hashes.
            pip_install --no-deps --no-build-isolation --editable "$target"
        else
            pip_install --editable "$target"
        fi
        printf '%s\n' "$wanted" >"$stamp"
    ) 9>"$VENV.lock"
}

environment_base() {
    install_project base '.[hub,cli]' development
}

environment_development() {
    install_project development '.[dev]' '' locks/development.txt
}

# Print the Pythons that are named above and found here, but for that of .venv: a version and its program a line.
other_pythons() {
    local version candidate used
    used=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    for version in $PYTHONS; do
        [ "$version" != "$used" ] || continue
        for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
            if "$candidate" -c "import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" \
                </dev/null >/dev/null 2>&1; then
                printf '%s %s\n' "$version" "$candidate"
                break
            fi
        done
    done
}

#   $1 version   $2 its program
environment_beside() {
    local VENV=.venv-$1 PYTHON=$2
    environment_development
}

# Whether there is a JDK that the servers run on: 17 or later.
have_jdk() {
    local release
    release=$("${JAVA_HOME:+$JAVA_HOME/bin/}javac" -version 2>&1 | sed -nE 's/^javac ([0-9]+).*/\1/p') || return 1
    [ "${release:-0}" -ge 17 ]
}

environment_java() {
    local packages=()
    have_jdk || packages+=(openjdk-17-jdk-headless)
    command -v mvn >/dev/null || packages+=(maven)
    [ ${#packages[@]} -gt 0 ] || return 0
    system_packages "a JDK (17 or later) or Maven, for the servers that tests start," "${packages[@]}"
    have_jdk || fail "the first JDK in JAVA_HOME or PATH is older than 17; name a later one: JAVA_HOME=/path/to/jdk $0"
}

environment_terminal() {
    local packages=() name
    for name in tmux zsh fish; do
        command -v "$name" >/dev/null || packages+=("$name")
    done
    [ ${#packages[@]} -gt 0 ] || return 0
    system_packages "${packages[*]}, in which tests look at terminal views and have words completed," "${packages[@]}"
}

environment_kerberos() {
    local packages=()
    $VENV/bin/python -c 'import gssapi' 2>/dev/null && return 0
    command -v krb5-config >/dev/null || packages+=(libkrb5-dev)
    command -v gcc >/dev/null || packages+=(gcc libc6-dev)
    [ ${#packages[@]} -eq 0 ] ||
        system_packages "${packages[*]}, with which the package for logins by Kerberos is compiled," "${packages[@]}"
    say "compiling the package for logins by Kerberos"
    pip_install --require-hashes --requirement locks/kerberos-build.txt
    pip_install --require-hashes --no-build-isolation --requirement locks/kerberos.txt
}
