#!/bin/bash
# Ask the server of HBase in this container for its own view; exit with 0 if it works:
#
#   ready.sh master         it is the active master, and has finished its initialisation: tables can be made
#   ready.sh regionserver   it has HBase regions open: hbase:meta at the least, if it is the only one
case ${1:-} in
    master)
        port=16010
        bean=Hadoop:service=HBase,name=Master,sub=Server
        expected='"masterFinishedInitializationTime" *: *[1-9]'
        ;;
    regionserver)
        port=16030
        bean=Hadoop:service=HBase,name=RegionServer,sub=Server
        expected='"regionCount" *: *[1-9]'
        ;;
    *)
        echo "error: cannot ask: '${1:-}' is neither master nor regionserver" >&2
        exit 2
        ;;
esac
exec 3<>"/dev/tcp/127.0.0.1/$port" || exit 1
printf 'GET /jmx?qry=%s HTTP/1.0\r\n\r\n' "$bean" >&3
if ! grep "$expected" <&3 >/dev/null; then
    echo "not ready: $bean does not say $expected"
    exit 1
fi
