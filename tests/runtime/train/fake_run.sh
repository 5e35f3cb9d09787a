#!/bin/sh
# Stands in for a training run: fake_run.sh RUN does what line N of RUN/plan says at its N-th start. A line holds words:
#   step:7 writes that step's line, save:7 makes a checkpoint, beats:5 touches the heartbeat every 0.1 s, keep:1 cuts metrics.jsonl to a line
#   open rm seen:7   hold metrics.jsonl open, remove it once the supervisor has read it, write a step's line into it all the same
#   fail:7 leaves failure.json of that step
#   exit:3 kill:9 stop hang   end it, or do not; wait ends with code 3 on SIGTERM and saves step 9 on SIGUSR1
# RUN/pids collects the process ids.
run=$1
echo $$ >>"$run/pids"
attempt=$(wc -l <"$run/pids")
for word in $(sed -n "${attempt}p" "$run/plan"); do
  value=${word#*:}
  case $word in
    step:*) echo "{\"step\":$value,\"tokens\":$attempt,\"step_seconds\":0.25}" >>"$run/metrics.jsonl" ;;
    open) exec 3>>"$run/metrics.jsonl" ;;
    rm)
      for _ in $(seq 600); do
        readlink "/proc/$PPID/fd/"* | grep -qxF "$run/metrics.jsonl" && break
        sleep 0.1
      done
      rm "$run/metrics.jsonl"
      ;;
    seen:*) echo "{\"step\":$value,\"tokens\":$attempt,\"step_seconds\":0.25}" >&3 ;;
    save:*) mkdir -p "$run/checkpoints/step_$value" ;;
    beats:*) for _ in $(seq "$value"); do touch "$run/heartbeat"; sleep 0.1; done ;;
    keep:*) head -n "$value" "$run/metrics.jsonl" >"$run/kept"; mv "$run/kept" "$run/metrics.jsonl" ;;
    fail:*) echo "{\"step\":$value,\"kind\":\"skipped steps\",\"message\":\"start $attempt\"}" >"$run/failure.json" ;;
    exit:*) exit "$value" ;;
    kill:*) kill "-$value" $$ ;;
    stop) kill -STOP $$ ;;
    hang) sleep 1000 & echo $! >>"$run/sleepers"; wait ;;
    wait)
      trap 'exit 3' TERM INT
      trap 'mkdir -p "$run/checkpoints/step_9"; exit 0' USR1
      touch "$run/ready"
      while :; do sleep 0.05; done ;;
  esac
done
exit 0
