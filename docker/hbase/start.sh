#!/bin/bash
# Start a server of HBase, and serve until SIGTERM:
#
#   start.sh master | regionserver
#
# HBASE_ZOOKEEPER      host:port[,host:port...] of ZooKeeper; required
# HBASE_ADDRESS        the name by which clients and other servers reach this one; the host name unless given
# HBASE_DATA           the directory that all servers of the cluster share
# HBASE_JAVA_OPTIONS   flags of the virtual machine
set -euo pipefail

if [ -z "${HBASE_ZOOKEEPER:-}" ]; then
    echo "error: cannot start: HBASE_ZOOKEEPER is not set; name ZooKeeper as host:port" >&2
    exit 2
fi
export HBASE_ZOOKEEPER HBASE_DATA HBASE_ADDRESS=${HBASE_ADDRESS:-$HOSTNAME}

case ${1:-} in
    master) main=org.apache.hadoop.hbase.master.HMaster ;;
    regionserver) main=org.apache.hadoop.hbase.regionserver.HRegionServer ;;
    *)
        echo "error: cannot start: '${1:-}' is neither master nor regionserver" >&2
        exit 2
        ;;
esac

# The options are several words.
read -r -a options <<<"${HBASE_JAVA_OPTIONS:-}"
# What HBase reaches into on Java 17.
for package in java.io java.lang java.lang.reflect java.nio java.util java.util.concurrent jdk.internal.util.random sun.nio.ch; do
    options+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
for package in jdk.internal.misc sun.net.dns sun.net.util; do
    options+=(--add-exports "java.base/$package=ALL-UNNAMED")
done
exec java "${options[@]}" -XX:+ExitOnOutOfMemoryError -Djava.net.preferIPv4Stack=true \
    -cp "$HBASE_HOME/conf:$HBASE_HOME/jars/*" "$main" start
