#!/bin/bash
# Ask the bookie in this container how much space it has; exit with 0 if it answers.
#
# The request is a frame of the bookies' protocol, version 3: length 13, header (version 3, operation 8 "bookie info",
# transaction 1), and the question for the free space (2). The answer begins with its length, the same header and
# the status 0.
exec 3<>"/dev/tcp/${BOOKKEEPER_ADDRESS:-$HOSTNAME}/3181" || exit 1
printf '\x00\x00\x00\x0d\x0a\x06\x08\x03\x10\x08\x18\x01\xca\x06\x02\x08\x02' >&3
length=$(head -c 4 <&3 | od -An -tu1 | { read -r _ _ high low; echo $((high * 256 + low)); })
# All of it is read: whoever closes before that resets the connection, which the bookie would log each time.
answer=$(head -c "$length" <&3 | od -An -tx1 -v | tr -d ' \n')
[ "${answer:0:20}" = 0a060803100818011000 ]
