#!/usr/bin/env bash
# two_machines.sh COMMAND…: runs it with mpirun on two machines of two ranks each: network namespaces joined by a cable,
# with nothing but TCP between them. Needs root; exits with 77 where namespaces cannot be made. Prints the bytes that
# crossed the cable.
set -u
here=$(mktemp -d)
a=zrt_a$$ b=zrt_b$$
clean() {
  ip netns del "$a" 2>/dev/null
  ip netns del "$b" 2>/dev/null
  rm -rf "$here"
}
trap clean EXIT
if ! { ip netns add "$a" && ip netns add "$b" && ip -n "$a" link add cable type veth peer name cable netns "$b"; } 2>"$here/why"; then
  echo "network namespaces cannot be made here: $(cat "$here/why")"
  exit 77
fi
ip -n "$a" addr add 10.77.0.1/24 dev cable
ip -n "$b" addr add 10.77.0.2/24 dev cable
for n in "$a" "$b"; do
  ip -n "$n" link set lo up
  ip -n "$n" link set cable up
done
# What mpirun starts on the other machine instead of ssh: the agent, the host, the command.
cat >"$here/agent" <<EOT
#!/usr/bin/env bash
shift
export ZRT_HOST_GROUP=other ASAN_OPTIONS=detect_leaks=0
exec ip netns exec $b /bin/sh -c "\$*"
EOT
chmod +x "$here/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=detect_leaks=0  # Open MPI does not free what it makes at its start
ip netns exec "$a" timeout -k 5 60 mpirun --oversubscribe --bind-to none --mca plm_rsh_agent "$here/agent" \
  --mca btl self,tcp --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable \
  --host 10.77.0.1:2,10.77.0.2:2 -n 4 "$@"
code=$?
echo "cable_bytes $(ip netns exec "$a" cat /sys/class/net/cable/statistics/tx_bytes)"
exit $code
