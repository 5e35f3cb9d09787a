// Steps of a run whose blocks sleep for as long as the cost model says that they compute, predicted and measured:
// `sleeping_ranks CONFIG CLUSTER RANKS`, under mpirun one rank each. So few cores play many, and what is left of a
// step's time is communication and waiting. Prints a line of JSON.
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "comm/launch.h"
#include "core/error.h"
#include "runtime/bench/predict.h"
#include "runtime/cost/cost.h"
#include "tests/runtime/wrapped_block.h"

namespace {

using namespace zrt;

class SleepingBlock : public testing::WrappedBlock {
 public:
  // `rows` of all that goes from block to block are a rank's own.
  SleepingBlock(std::shared_ptr<const models::Block> inner, runtime::BlockCost cost, int64_t rows)
      : WrappedBlock(inner, {}), inner_(std::move(inner)), cost_(cost), rows_(rows) {}
  std::vector<models::GemmSpec> products(const models::Shape& shape) const override { return inner_->products(shape); }
  void forward(const models::Call& call) const override {
    clear(call.output, call, output_width());
    if (call.loss) *call.loss = 1;
    sleep(call, inner_->anatomy().forward_in_training(), cost_.forward_seconds);
  }
  // Gradients of next to nothing, so that no step is skipped and no weight changes much.
  void backward(const models::Call& call) const override {
    if (call.half != models::Half::weight) clear(call.d_input, call, output_width());
    for (size_t i = 0; i < call.grads.size() && call.parts.first == 0; ++i) {
      if (call.accumulate[i] || call.grads[i] == nullptr) continue;
      std::memset(call.grads[i], 0,
                  static_cast<size_t>(params()[i].elements()) * core::dtype_size(call.shape.grad_type));
    }
    if (call.loss) *call.loss = 1;
    sleep(call, inner_->anatomy().all(), cost_.backward_seconds);
  }

 private:
  void clear(void* values, const models::Call& call, int64_t width) const {
    if (values) std::memset(values, 0, static_cast<size_t>(rows_ * width) * core::dtype_size(call.shape.type));
  }
  void sleep(const models::Call& call, models::Parts whole, double seconds) const {
    if (call.parts != whole || call.half != models::Half::both) {
      seconds *= runtime::share_of_pass(*inner_, call.shape, call.parts, call.half);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

  std::shared_ptr<const models::Block> inner_;
  const runtime::BlockCost cost_;
  const int64_t rows_;
};

models::Model sleeping(models::Model model, const runtime::Config& config, const runtime::Cluster& cluster) {
  const models::Shape shape{config.batch.micro, model.sequence, config.precision.compute, config.precision.local_grad,
                            models::Mode::train};
  const int64_t rows = model.degrees.shares_rows() ? shape.rows() / config.mesh.tensor() : shape.rows();
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    const bool last = b + 1 == model.blocks.size();
    const runtime::BlockCost cost = runtime::block_cost(*model.blocks[b], shape, last, cluster);
    model.blocks[b] = std::make_shared<SleepingBlock>(model.blocks[b], cost, rows);
  }
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: sleeping_ranks CONFIG CLUSTER RANKS\n";
    return 2;
  }
  const auto transport = comm::make_transport("", std::atoi(argv[3]));
  try {
    const runtime::Config config = runtime::load_config(argv[1], {}, transport->world());
    const runtime::Cluster cluster = runtime::find_cluster(argv[2]);
    const models::Model model = sleeping(config.model.make(), config, cluster);
    const runtime::PredictBench bench =
        runtime::bench_predict(config, model, cluster, *transport, 5, [](const auto&) {});
    if (!transport->leads()) return 0;
    const auto shown = [](const runtime::Spread& of) {
      return nlohmann::ordered_json{{"median", of.median}, {"low", of.low}, {"high", of.high}};
    };
    std::cout << nlohmann::ordered_json{{"predicted",
                                         {{"seconds", bench.predicted.seconds},
                                          {"exposed_seconds", bench.predicted.exposed_comm_seconds}}},
                                        {"measured",
                                         {{"seconds", shown(bench.step_seconds)},
                                          {"exposed_seconds", shown(bench.exposed_comm_seconds)}}}}
              << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    transport->fail(
        error, [] {}, 1);
    return 1;
  }
}
