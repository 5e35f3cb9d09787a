#!/usr/bin/env bash
# two_hosts.sh [--ranks-per-host N] [--in-turns | --by-zrt] [--rate RATE] [--beside COMMAND] [--] COMMAND…
#
# Runs COMMAND with mpirun on two hosts, N ranks on each (default 1): the first N on one host or, with --in-turns, every
# second one. With --by-zrt, COMMAND is one of zrt and `zrt ranks` starts it, without MPI. The hosts are network namespaces of this machine, joined by a cable of RATE (default 1gbit; "none" for no
# limit), with nothing but TCP between them. --beside runs another command (one word, split at spaces) the same way; five
# seconds after COMMAND it is ended. Prints the bytes that crossed the cable to stderr.
# Needs root; exits with 77 where namespaces cannot be made.
set -u
usage="usage: two_hosts.sh [--ranks-per-host N] [--in-turns | --by-zrt] [--rate RATE] [--beside COMMAND] [--] COMMAND…"
ranks=1 map=slot rate=1gbit beside='' by=mpirun
while [ $# -gt 0 ]; do
  case "$1" in
    --ranks-per-host) ranks=${2:?$usage}; shift 2 ;;
    --in-turns) map=node; shift ;;
    --by-zrt) by=zrt; shift ;;
    --rate) rate=${2:?$usage}; shift 2 ;;
    --beside) beside=${2:?$usage}; shift 2 ;;
    --) shift; break ;;
    -*) echo "two_hosts.sh: unknown option $1; $usage" >&2; exit 2 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { echo "$usage" >&2; exit 2; }
[ "$by$map" != zrtnode ] || { echo "two_hosts.sh: --by-zrt starts neighbours on one host, not --in-turns" >&2; exit 2; }
tools=(ip tc) packages=iproute2
[ "$by" = zrt ] || tools+=(mpirun) packages="iproute2 and openmpi-bin"
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || { echo "two_hosts.sh: $tool was not found; install $packages" >&2; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "two_hosts.sh: network namespaces need root; this is user $(id -un)" >&2; exit 77; }

here=$(mktemp -d)
a=zrt_a$$ b=zrt_b$$ second=
clean() {
  [ -z "$second" ] || { kill "$second" && wait "$second"; } 2>/dev/null
  ip netns del "$a" 2>/dev/null
  ip netns del "$b" 2>/dev/null
  rm -rf "$here"
}
trap clean EXIT
trap 'exit 130' INT TERM
if ! { ip netns add "$a" && ip netns add "$b" && ip -n "$a" link add cable type veth peer name cable netns "$b"; } 2>"$here/why"; then
  echo "two_hosts.sh: network namespaces cannot be made here: $(cat "$here/why")" >&2
  exit 77
fi
ip -n "$a" addr add 10.77.0.1/24 dev cable
ip -n "$b" addr add 10.77.0.2/24 dev cable
for n in "$a" "$b"; do
  ip -n "$n" link set lo up
  ip -n "$n" link set cable up
  [ "$rate" = none ] && continue
  # The bucket must hold the largest packet that TCP hands down at once.
  if ! tc -n "$n" qdisc add dev cable root tbf rate "$rate" burst 128kb latency 10ms 2>"$here/why"; then
    echo "two_hosts.sh: the cable cannot be limited to $rate: $(cat "$here/why")" >&2
    exit 77
  fi
done
# Stands for ssh, on the other host and, where zrt asks for it, on this one: the agent, the host, the command.
cat >"$here/agent" <<EOT
#!/usr/bin/env bash
host=\$1
shift
[ "\$host" != 10.77.0.1 ] || exec /bin/sh -c "\$*"
export ZRT_HOST_GROUP=other ASAN_OPTIONS=detect_leaks=0
exec ip netns exec $b /bin/sh -c "\$*"
EOT
chmod +x "$here/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=detect_leaks=0 # Open MPI does not free what it makes at its start
printf '10.77.0.%s slots=%s\n' 1 "$ranks" 2 "$ranks" >"$here/hosts"
on_both() {
  local program=$1
  [ "$by" = mpirun ] ||
    exec ip netns exec "$a" "$program" ranks --hosts "$here/hosts" --agent "$here/agent" "${@:2}"
  exec ip netns exec "$a" mpirun --oversubscribe --bind-to none --map-by "$map" --mca plm_rsh_agent "$here/agent" \
    --mca btl self,tcp --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable \
    --host "10.77.0.1:$ranks,10.77.0.2:$ranks" -n $((2 * ranks)) "$@"
}
if [ -n "$beside" ]; then
  read -ra words <<<"$beside"
  (on_both "${words[@]}") </dev/null &
  second=$!
fi
(on_both "$@")
code=$?
# It may have been told to end.
for _ in $(seq 50); do
  [ -n "$second" ] && kill -0 "$second" 2>/dev/null || break
  sleep 0.1
done
echo "cable_bytes $(ip netns exec "$a" cat /sys/class/net/cable/statistics/tx_bytes)" >&2
exit $code
