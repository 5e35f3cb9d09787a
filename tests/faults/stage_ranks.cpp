// One rank of a run under mpirun that strikes itself: `stage_ranks CONFIG OUT PLACE RANK SIGNAL`. In the third step the
// process of rank RANK sends itself SIGNAL at PLACE: forward, backward, send or update. With PLACE "none" nothing
// happens. It goes on from what OUT holds.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <mutex>

#include "comm/launch.h"
#include "core/error.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/wrapped_block.h"
#include "tests/wrapped_transport.h"

namespace {

using namespace zrt;

constexpr uint32_t struck_step = 2;

struct Strike {
  std::string place;
  int rank = 0, signal = 0, own_rank = -1;
  std::atomic<uint32_t> step{0};
  std::once_flag once;

  void at(const std::string& here) {
    if (own_rank != rank || here != place || step != struck_step) return;
    std::call_once(once, [&] { kill(getpid(), signal); });
  }
};

void train(const std::string& file, const std::string& out, Strike& strike) {
  const auto before_pass = [&](const models::Block&, const models::Call& call, bool backward) {
    strike.step = call.rng.step;
    strike.at(backward ? "backward" : "forward");
  };
  const auto before_call = [&](std::string_view label) {
    if (label.starts_with("send")) strike.at("send");
  };
  // The update follows at once behind what all ranks decide together.
  const auto after_call = [&](std::string_view label) {
    if (label == "share control") strike.at("update");
  };
  testing::WrappedTransport transport(comm::make_transport("", std::nullopt), {before_call, after_call});
  strike.own_rank = transport.first_local();
  try {
    const runtime::Config config =
        runtime::load_config(file, std::vector<std::string>{"run.out=" + out, "run.resume=auto"}, transport.world());
    const models::Model model = testing::wrap(config.model.make(), {before_pass, {}});
    const runtime::TrainResult result = runtime::train(config, model, {}, transport);
    if (transport.leads()) std::cout << "state " << result.summary.state_xxh3 << std::endl;
  } catch (const std::exception& error) {
    transport.fail(
        error, [&] { std::cerr << error.what() << std::endl; }, 1);
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: stage_ranks CONFIG OUT PLACE RANK SIGNAL\n";
    return 2;
  }
  Strike strike;
  strike.place = argv[3], strike.rank = std::atoi(argv[4]), strike.signal = std::atoi(argv[5]);
  train(argv[1], argv[2], strike);
  return 0;
}
