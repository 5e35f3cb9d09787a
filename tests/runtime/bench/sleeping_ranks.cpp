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
  SleepingBlock(std::shared_ptr<const models::Block> inner, runtime::BlockCost cost)
      : WrappedBlock(inner, {}), inner_(std::move(inner)), cost_(cost) {}
  std::vector<models::GemmSpec> products(const models::Shape& shape) const override { return inner_->products(shape); }
  void forward(const models::Call& call) const override {
    clear(call.output, call, output_width());
    if (call.loss) *call.loss = 1;
    sleep(cost_.forward_seconds);
  }
  // Gradients of next to nothing, so that no step is skipped and no weight changes much.
  void backward(const models::Call& call) const override {
    clear(call.d_input, call, output_width());
    for (size_t i = 0; i < call.grads.size(); ++i) {
      if (call.accumulate[i]) continue;
      std::memset(call.grads[i], 0,
                  static_cast<size_t>(params()[i].elements()) * core::dtype_size(call.shape.grad_type));
    }
    if (call.loss) *call.loss = 1;
    sleep(cost_.backward_seconds);
  }

 private:
  static void clear(void* values, const models::Call& call, int64_t width) {
    if (values)
      std::memset(values, 0, static_cast<size_t>(call.shape.rows() * width) * core::dtype_size(call.shape.type));
  }
  static void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  std::shared_ptr<const models::Block> inner_;
  const runtime::BlockCost cost_;
};

models::Model sleeping(models::Model model, const runtime::Config& config, const runtime::Cluster& cluster) {
  const models::Shape shape{config.batch.micro, model.sequence, config.precision.compute, config.precision.local_grad,
                            models::Mode::train};
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    const bool last = b + 1 == model.blocks.size();
    const runtime::BlockCost cost =
        runtime::block_cost(*model.blocks[b], shape, last, cluster.rates(shape.type), cluster.memory_bytes_per_second);
    model.blocks[b] = std::make_shared<SleepingBlock>(model.blocks[b], cost);
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
    const runtime::Spread& step = bench.step_seconds;
    std::cout << nlohmann::ordered_json{{"predicted_seconds", bench.predicted.seconds},
                                        {"measured_seconds",
                                         {{"median", step.median}, {"low", step.low}, {"high", step.high}}}}
              << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    transport->fail(
        error, [] {}, 1);
    return 1;
  }
}
