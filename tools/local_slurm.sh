#!/usr/bin/env bash
# local_slurm.sh [--cpus N] -- COMMAND…: runs COMMAND, which may use srun, with a Slurm of one node that is started for it
# on this machine and ended behind it. The node has N processors (default 4), whatever the machine has. Needs root and
# Debian's packages slurm-wlm and munge; exits with 77 where they are missing. Everything it starts lives in a temporary
# folder, with sockets and ports of its own.
set -euo pipefail

cpus=4
while [ $# -gt 0 ]; do
  case $1 in
    --cpus) cpus=$2; shift 2 ;;
    --) shift; break ;;
    *) echo "local_slurm.sh: unknown option $1; legal are --cpus N and --" >&2; exit 2 ;;
  esac
done
[ $# -gt 0 ] || { echo "local_slurm.sh: no command behind --" >&2; exit 2; }
for program in munged mungekey slurmctld slurmd srun; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || {
    echo "local_slurm.sh: $program was not found; install slurm-wlm and munge" >&2
    exit 77
  }
done
[ "$(id -u)" = 0 ] || { echo "local_slurm.sh: needs root" >&2; exit 77; }
PATH=$PATH:/usr/sbin

folder=$(mktemp -d /tmp/zrt_slurm.XXXXXX)
daemons=()
finish() {
  local code=$?
  # The last first: Slurm's daemons say good-bye to each other through munged.
  for ((i = ${#daemons[@]} - 1; i >= 0; --i)); do
    kill "${daemons[i]}" 2>/dev/null || true
    wait "${daemons[i]}" 2>/dev/null || true
  done
  rm -rf "$folder"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

mungekey --create --keyfile="$folder/munge.key"
munged --foreground --force --num-threads=1 --socket="$folder/munge.socket" --key-file="$folder/munge.key" \
  --log-file="$folder/munge.log" --pid-file="$folder/munge.pid" --seed-file="$folder/munge.seed" \
  2>"$folder/munged.out" &
daemons+=($!)

port=$((20000 + $$ % 10000 * 2))
mkdir "$folder/state" "$folder/spool"
cat >"$folder/slurm.conf" <<END
ClusterName=zrt
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=$cpus State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$folder/slurm.conf
slurmctld -D 2>"$folder/slurmctld.out" &
daemons+=($!)
slurmd -D 2>"$folder/slurmd.out" &
daemons+=($!)
for ((i = 0; i < 100; ++i)); do
  sinfo --noheader --format=%T 2>/dev/null | grep -q idle && break
  sleep 0.2
done
sinfo --noheader --format=%T | grep -q idle || {
  echo "local_slurm.sh: the node did not come up: $(tail -qn 3 "$folder"/*.out)" >&2
  exit 1
}
code=0
"$@" || code=$?
# The ends of steps are told to daemons that must still be there.
for ((i = 0; i < 50; ++i)); do
  [ -n "$(squeue --noheader 2>/dev/null)" ] || break
  sleep 0.1
done
exit "$code"
