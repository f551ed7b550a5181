#!/bin/bash
# Start a bookie, or set the cluster of bookies up in ZooKeeper:
#
#   start.sh bookie    serve until SIGTERM
#   start.sh format    make what is missing below the root of the ledgers; what is there stays
#
# BOOKKEEPER_ZOOKEEPER      host:port[;host:port...] of ZooKeeper; required
# BOOKKEEPER_ROOT           where ledgers are registered there; /ledgers unless given
# BOOKKEEPER_ADDRESS        the name by which hubs reach this bookie, and its identity for good; the host name unless given
# BOOKKEEPER_DATA           the directory of journal and ledgers
# BOOKKEEPER_JAVA_OPTIONS   flags of the virtual machine
set -euo pipefail

root=${BOOKKEEPER_ROOT:-/ledgers}
if [ -z "${BOOKKEEPER_ZOOKEEPER:-}" ]; then
    echo "error: cannot start: BOOKKEEPER_ZOOKEEPER is not set; name ZooKeeper as host:port" >&2
    exit 2
fi
work=$(mktemp -d)
cp "$BOOKKEEPER_HOME/conf/bookie.conf" "$work/bookie.conf"
cat >>"$work/bookie.conf" <<END
metadataServiceUri=zk+hierarchical://${BOOKKEEPER_ZOOKEEPER}${root}
advertisedAddress=${BOOKKEEPER_ADDRESS:-$HOSTNAME}
journalDirectories=$BOOKKEEPER_DATA/journal
ledgerDirectories=$BOOKKEEPER_DATA/ledgers
END

# The options are several words.
read -r -a options <<<"${BOOKKEEPER_JAVA_OPTIONS:-}"
java=(java "${options[@]}" -XX:+ExitOnOutOfMemoryError -Djava.net.preferIPv4Stack=true
    -Dio.netty.tryReflectionSetAccessible=true --add-opens java.base/java.nio=ALL-UNNAMED
    -cp "$BOOKKEEPER_HOME/conf:$BOOKKEEPER_HOME/jars/*")
shell=("${java[@]}" org.apache.bookkeeper.bookie.BookieShell -conf "$work/bookie.conf")

case ${1:-} in
    bookie)
        exec "${java[@]}" org.apache.bookkeeper.server.Main --conf "$work/bookie.conf"
        ;;
    format)
        # A second initnewcluster is refused, and must be: bookies with data believe in the first one's id.
        if "${shell[@]}" whatisinstanceid; then
            echo "the bookies below ${BOOKKEEPER_ZOOKEEPER}${root} are set up already"
        else
            "${shell[@]}" initnewcluster
        fi
        ;;
    *)
        echo "error: cannot start: '${1:-}' is neither bookie nor format" >&2
        exit 2
        ;;
esac
