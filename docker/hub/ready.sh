#!/bin/bash
# Ask the admin endpoint of the hub in this container whether a publish would be accepted now; exit with 0 if so.
# What hinders it goes to standard output, which `docker inspect` shows.
host=${HEDWIG_HUB_ADMIN_HOST:-127.0.0.1}
case $host in
    0.0.0.0 | ::) host=127.0.0.1 ;;
esac
exec 3<>"/dev/tcp/$host/${HEDWIG_HUB_ADMIN_PORT:-4081}" || exit 1
printf 'GET /ready HTTP/1.0\r\nHost: %s\r\n\r\n' "$host" >&3
read -r _ status _ <&3
while IFS=$' \r' read -r line && [ -n "$line" ]; do :; done <&3
cat <&3
[ "$status" = 200 ]
