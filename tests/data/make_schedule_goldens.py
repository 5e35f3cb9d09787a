"""Writes schedule_goldens.json: what DeepSpeed's own schedulers set for each step, for tests/optimizer/schedule.

    pip download --no-deps --no-binary deepspeed deepspeed==0.19.4 && tar xf deepspeed-0.19.4.tar.gz
    python make_schedule_goldens.py deepspeed-0.19.4 > schedule_goldens.json

Only DeepSpeed's file of schedulers is loaded, with stand-ins for the few names that it imports; PyTorch is not needed.
The values are those in force at each step: the scheduler moves on behind the optimizer. A step is
[rate, first beta, second beta]; without momentum the betas stay those of the optimizer.
"""
import importlib.util
import json
import logging
import pathlib
import sys
import types

BETAS = (0.9, 0.999)


class Optimizer:
    """What a scheduler touches of torch.optim.Optimizer."""

    def __init__(self, lr):
        self.defaults = {"lr": lr, "betas": BETAS}
        self.param_groups = [dict(self.defaults)]


def stand_in(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


def load(root):
    stand_in("torch", is_tensor=lambda value: False)
    stand_in("torch.optim", Optimizer=Optimizer)
    stand_in("deepspeed")
    logger = logging.getLogger("deepspeed")
    logger.setLevel(logging.ERROR)
    stand_in("deepspeed.utils", logger=logger)
    spec = importlib.util.spec_from_file_location("lr_schedules", root / "deepspeed/runtime/lr_schedules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def case(schedules, name, steps, lr=8e-4, **params):
    optimizer = Optimizer(lr)
    scheduler = getattr(schedules, name)(optimizer, **params)
    values = []
    for _ in range(steps):
        group = optimizer.param_groups[0]
        values.append([group["lr"], *group["betas"]])
        scheduler.step()
    return {"type": name, "lr": lr, "params": params, "values": values}


def cases(s):
    cycle = dict(cycle_min_lr=0.001, cycle_max_lr=0.01, cycle_first_step_size=8)
    yield case(s, "OneCycle", 20, **cycle)
    yield case(s, "OneCycle", 20, **cycle, cycle_first_stair_count=4)
    yield case(s, "OneCycle", 20, **cycle, cycle_first_stair_count=4, cycle_second_stair_count=0)
    yield case(s, "OneCycle", 20, **cycle, cycle_second_stair_count=2)
    yield case(s, "OneCycle", 20, **cycle, cycle_first_stair_count=3, cycle_second_stair_count=16)
    yield case(s, "OneCycle", 20, **cycle, cycle_first_stair_count=1, cycle_momentum=False)
    # Halves of other lengths, whose heights are no exact numbers, and the decay behind them.
    for first, second, up, down in [(7, 3, 7, 3), (3, 11, 2, 5), (10, 3, 4, None), (5, 0, 5, 5), (6, 9, 0, 4)]:
        yield case(s, "OneCycle", 24, cycle_min_lr=1e-4, cycle_max_lr=1e-3, cycle_first_step_size=first,
                   cycle_second_step_size=second, cycle_first_stair_count=up, cycle_second_stair_count=down,
                   decay_step_size=4, decay_lr_rate=0.5, cycle_min_mom=0.7, cycle_max_mom=0.95, decay_mom_rate=0.01)
    yield case(s, "OneCycle", 20, **cycle, decay_lr_rate=0.5)  # no decay without its step size
    for staircase in [False, True]:
        yield case(s, "LRRangeTest", 9, lr_range_test_min_lr=1e-4, lr_range_test_step_size=3,
                   lr_range_test_step_rate=2.0, lr_range_test_staircase=staircase)
    for warmup in ["log", "linear"]:
        for steps in [1, 2, 5]:
            yield case(s, "WarmupLR", 8, warmup_min_lr=1e-4, warmup_max_lr=9e-4, warmup_num_steps=steps,
                       warmup_type=warmup)
            yield case(s, "WarmupDecayLR", 14, total_num_steps=12, warmup_min_lr=1e-4, warmup_max_lr=9e-4,
                       warmup_num_steps=steps, warmup_type=warmup)
            yield case(s, "WarmupCosineLR", 14, total_num_steps=12, warmup_min_ratio=0.2, cos_min_ratio=0.1,
                       warmup_num_steps=steps, warmup_type=warmup)
    # A schedule that ends before its warm-up does.
    for total in [0, 3]:
        yield case(s, "WarmupDecayLR", 8, total_num_steps=total, warmup_max_lr=9e-4, warmup_num_steps=5)
        yield case(s, "WarmupCosineLR", 8, total_num_steps=total, warmup_num_steps=5)


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    version = (root / "version.txt").read_text().strip()
    rows = ",\n".join(json.dumps(one) for one in cases(load(root)))
    print('{"made_by": {"deepspeed": "%s"}, "cases": [\n%s\n]}' % (version, rows))
