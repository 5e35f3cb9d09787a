#include "runtime/session.h"

#include <exception>
#include <thread>

#include "comm/thread_group.h"
#include "core/error.h"
#include "core/hash.h"

namespace zrt::runtime {

Session::Session(const Layout& layout, Compiled compiled, SessionOptions options, SessionHooks hooks)
    : layout_(layout), compiled_(std::move(compiled)), hooks_(std::move(hooks)) {
  auto group = comm::make_thread_group("dp", layout.dp, options.timeout);
  const auto optimizer = optimizer::make_optimizer(layout.optimizer);
  ranks_.resize(static_cast<size_t>(layout.dp));
  // Each rank fills its own arena, so that its pages are first touched by the thread that will use them.
  on_all_ranks([&](size_t r) {
    Member& member = ranks_[r];
    member.dp = std::move(group[r]);
    member.arena = std::make_unique<core::Arena>(core::Tier::device, compiled_.set.device_bytes);
    Rank rank;
    rank.number = static_cast<int>(r);
    rank.layout = &layout_;
    rank.dp = member.dp.get();
    rank.optimizer = optimizer;
    rank.loss_scale = options.loss_scale;
    rank.clip = options.clip;
    rank.seed = options.seed;
    rank.batch = [this, r](uint32_t microbatch, int32_t* tokens, int32_t* targets) {
      hooks_.batch(static_cast<int>(r), microbatch, tokens, targets);
    };
    rank.load = hooks_.load;
    if (r == 0) {
      rank.save = [this](const optimizer::Unit& unit, const float* weights) { save_unit_(unit, weights); };
    }
    member.executor = std::make_unique<Executor>(std::move(rank), compiled_.set, *member.arena, options.executor);
  });
}

Session::~Session() {
  for (Member& member : ranks_) member.executor.reset();
}

void Session::on_all_ranks(const std::function<void(size_t)>& body) {
  std::vector<std::exception_ptr> errors(ranks_.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        body(r);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A CommError is usually the echo of another rank's failure: prefer what caused it.
  std::exception_ptr chosen;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!chosen) chosen = error;
    try {
      std::rethrow_exception(error);
    } catch (const core::CommError&) {
    } catch (...) {
      std::rethrow_exception(error);
    }
  }
  if (chosen) std::rethrow_exception(chosen);
}

void Session::run(std::string_view phase, StepInputs inputs) {
  const Program& program = compiled_.set.program(phase);
  const bool makes_control = phase == "init" || phase == "load";
  on_all_ranks([&](size_t r) {
    Executor& executor = *ranks_[r].executor;
    if (!makes_control) executor.control().inputs = inputs;
    executor.run(program);
  });
}

void Session::save(const std::function<void(const models::Param&, const float*)>& take) {
  save_unit_ = [&](const optimizer::Unit& unit, const float* weights) {
    for (const optimizer::UnitParam& place : unit.params) take(*place.param, weights + place.offset);
  };
  run("save", ranks_[0].executor->control().inputs);
  save_unit_ = nullptr;
}

std::string Session::state_xxh3() {
  core::Hash hash;
  save([&](const models::Param& param, const float* weights) {
    hash.update(weights, static_cast<size_t>(param.elements()) * sizeof(float));
  });
  return hash.hex();
}

}  // namespace zrt::runtime
