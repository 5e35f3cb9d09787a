#include "tests/models/tensor_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace zrt::test {

using models::Anatomy;
using models::Block;
using models::Parts;
using models::Port;

TensorRunner::TensorRunner(const models::Model& model, const models::Shape& shape, int ranks, bool sequence_parallel)
    : model_(model), shape_(shape), ranks_(static_cast<size_t>(ranks)), rows_(sequence_parallel) {
  for (Rank& rank : ranks_) {
    for (const auto& block : model.blocks) {
      for (const models::Param& param : block->params()) {
        if (rank.weights.contains(param.name)) continue;
        rank.weights[param.name] = GuardedBuffer(static_cast<uint64_t>(param.elements()) * 4);
        rank.grads[param.name] = GuardedBuffer(static_cast<uint64_t>(param.elements()) * 4);
      }
      const bool head = block == model.blocks.back();
      rank.outputs.emplace_back(head ? 0 : static_cast<uint64_t>(row_share() * block->output_width()) * 4);
      auto& saved = rank.saved.emplace_back();
      for (size_t part = 0; part < block->anatomy().parts.size(); ++part)
        saved.emplace_back(block->saved_bytes(shape, part));
    }
  }
}

const models::Param& TensorRunner::param(const std::string& name) const {
  for (const auto& block : model_.blocks) {
    for (const models::Param& param : block->params()) {
      if (param.name == name) return param;
    }
  }
  throw std::runtime_error("there is no parameter " + name);
}

void TensorRunner::load(const Tensors& weights) {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    for (auto& [name, buffer] : ranks_[r].weights) {
      const models::Param& of = param(name);
      const std::vector<double>& whole = weights.at(name);
      std::vector<double> own(static_cast<size_t>(of.elements()));
      models::for_each_piece(of, static_cast<int>(r), 0, of.elements(), [&](const models::Piece& piece) {
        if (piece.whole >= 0) std::copy_n(whole.data() + piece.whole, piece.count, own.data() + piece.begin);
      });
      buffer.store(core::DType::f32, own);
    }
  }
}

std::vector<Parts> TensorRunner::runs(size_t b, Parts parts, bool backward) const {
  std::vector<Parts> result{parts};
  for (const Port& port : model_.blocks[b]->anatomy().ports) {
    const auto cut = static_cast<uint8_t>(port.part + 1);
    if (!exchanged(port, backward) || cut <= result.back().first || cut >= parts.end) continue;
    result.back().end = cut;
    result.push_back({cut, parts.end});
  }
  return result;
}

bool TensorRunner::exchanged(const Port& port, bool backward) const {
  return port.seam.of(backward) != models::Collective::none;
}

int64_t TensorRunner::row_share() const {
  const auto ranks = static_cast<int64_t>(ranks_.size());
  return rows_ ? (shape_.rows() + ranks - 1) / ranks : shape_.rows();
}

// Every rank's port gets the sum of all, in their order, or all that they told; where ranks share rows, its own rows of
// the sum, and no other rank's are left, or the rows of all.
void TensorRunner::exchange(size_t b, size_t part, bool backward) {
  settle();
  const std::vector<Port>& ports = model_.blocks[b]->anatomy().ports;
  for (size_t p = 0; p < ports.size(); ++p) {
    if (ports[p].part != part || !exchanged(ports[p], backward)) continue;
    const auto of = [&](Rank& rank) -> GuardedBuffer& { return (backward ? rank.d_ports : rank.ports)[p]; };
    const uint64_t share = of(ranks_.front()).bytes() / ranks_.size();
    const bool adds = models::adds_up(ports[p].seam.of(backward));
    if (!adds) {
      for (size_t from = 0; from < ranks_.size(); ++from) {
        for (Rank& to : ranks_)
          std::memmove(of(to).data() + from * share, of(ranks_[from]).data() + from * share, share);
      }
      continue;
    }
    const auto count = static_cast<int64_t>(of(ranks_.front()).bytes() / 4);
    std::vector<double> sum(static_cast<size_t>(count));
    for (Rank& rank : ranks_) {
      const std::vector<double> own = of(rank).load(core::DType::f32, count);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<double> own = sum;
      for (size_t i = 0; i < own.size() && rows_; ++i) {
        if (i / (share / 4) != r) own[i] = NAN;
      }
      of(ranks_[r]).store(core::DType::f32, own);
    }
  }
}

void TensorRunner::open_ports(size_t b, bool backward) {
  const Anatomy& anatomy = model_.blocks[b]->anatomy();
  for (Rank& rank : ranks_) {
    std::vector<GuardedBuffer>& buffers = backward ? rank.d_ports : rank.ports;
    buffers.clear();
    for (const Port& port : anatomy.ports) {
      const uint64_t copies = port.stacked ? ranks_.size() : 1;
      const uint64_t element = port.element > 0 ? port.element : 4;
      const auto rows = static_cast<uint64_t>(rows_ && !port.stacked && !port.seam.stays()
                                                  ? row_share() * static_cast<int64_t>(ranks_.size())
                                                  : shape_.rows());
      const bool open = port.seam.stays() || exchanged(port, backward);
      buffers.emplace_back(open ? rows * static_cast<uint64_t>(port.width) * element * copies : 0);
    }
  }
}

void TensorRunner::run(size_t b, Parts parts, bool backward, bool again, const Batch& batch, const RunOptions& options,
                       models::Half half) {
  const Block& block = *model_.blocks[b];
  const Visible<int32_t> tokens = visible(batch.tokens), targets = visible(batch.targets);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    GuardedBuffer workspace(backward ? block.backward_workspace_bytes(shape_, parts, half)
                                     : block.forward_workspace_bytes(shape_));
    models::Call call;
    call.shape = shape_;
    call.parts = parts, call.again = again, call.half = half;
    std::vector<std::byte*> held;
    for (const GuardedBuffer& part : rank.held) held.push_back(part.data());
    if (half != models::Half::both) call.held = held;
    call.tensor_rank = static_cast<int>(r);
    std::vector<const void*> weights;
    std::vector<void*> grads, ports, d_ports;
    std::vector<std::byte*> saved;
    for (const models::Param& each : block.params()) {
      weights.push_back(rank.weights.at(each.name).data()), grads.push_back(rank.grads.at(each.name).data());
    }
    for (const GuardedBuffer& port : rank.ports) ports.push_back(port.data());
    for (const GuardedBuffer& port : rank.d_ports) d_ports.push_back(port.data());
    for (const GuardedBuffer& part : rank.saved[b]) saved.push_back(part.data());
    call.weights = weights, call.saved = saved;
    call.ports = ports;
    if (backward) call.d_ports = d_ports;
    call.tokens = tokens.data(), call.targets = targets.data();
    call.input = b > 0 ? rank.outputs[b - 1].data() : nullptr;
    call.output = rank.outputs[b].data();
    if (backward) {
      call.grads = grads, call.accumulate = rank.written;
      call.d_output = rank.d_output.data(), call.d_input = rank.d_input.data();
    }
    call.workspace = workspace.data();
    call.loss = rank.loss.data();
    call.loss_scale = options.loss_scale != 0 ? options.loss_scale : 1 / static_cast<float>(shape_.rows());
    call.router_scale = call.loss_scale;
    call.rng = {options.seed, options.step, 0};
    call.first_sample = options.first_sample;
    if (half == models::Half::input) std::fill(grads.begin(), grads.end(), nullptr);
    if (half == models::Half::weight) {  // which has nothing but what is held, ports and their gradients
      std::fill(weights.begin(), weights.end(), nullptr);
      call.saved = {}, call.tokens = call.targets = nullptr, call.loss = nullptr;
      call.input = call.d_output = nullptr, call.output = call.d_input = nullptr;
    }
    backward ? block.backward(call) : block.forward(call);
    workspace.check(block.name() + ": the workspace");
    for (const GuardedBuffer& part : rank.held) part.check(block.name() + ": what is held");
    for (const GuardedBuffer& port : rank.ports) port.check(block.name() + ": a port");
    for (const GuardedBuffer& port : rank.d_ports) port.check(block.name() + ": a port's gradient");
    for (const auto& [name, grad] : rank.grads) grad.check("the gradient of " + name);
  }
}

double TensorRunner::train(const Batch& batch, const RunOptions& options) {
  for (size_t b = 0; b < model_.blocks.size(); ++b) {
    open_ports(b, false);
    const std::vector<Parts> all = runs(b, model_.blocks[b]->anatomy().forward_in_training(), false);
    for (const Parts& parts : all) {
      run(b, parts, false, false, batch, options);
      if (parts.end < all.back().end) exchange(b, parts.end - 1u, false);
    }
  }
  for (size_t b = model_.blocks.size(); b-- > 0;) {
    const Anatomy& anatomy = model_.blocks[b]->anatomy();
    const std::vector<Parts> all = runs(b, anatomy.all(), true);
    open_ports(b, false), open_ports(b, true);
    for (Rank& rank : ranks_) {
      if (b > 0) rank.d_input = GuardedBuffer(rank.outputs[b - 1].bytes());
      rank.held.clear();
      for (size_t part = 0; part < anatomy.parts.size(); ++part) {
        rank.held.emplace_back(model_.blocks[b]->held_bytes(shape_, part));
      }
      rank.written.clear();
      for (const models::Param& each : model_.blocks[b]->params()) rank.written.push_back(written_[each.name]);
    }
    std::vector<bool> brought(anatomy.ports.size());
    for (size_t r = all.size(); r-- > 0;) {
      for (size_t p = 0; p < anatomy.ports.size() && rows_; ++p) {
        const Port& port = anatomy.ports[p];
        if (brought[p] || !anatomy.reads_back(port, all[r])) continue;
        brought[p] = true;
        run(b, {port.part, static_cast<uint8_t>(port.part + 1)}, false, true, batch, options);
        exchange(b, port.part, false);
      }
      const bool split = halves && anatomy.halves(all[r]);
      run(b, all[r], true, false, batch, options, split ? models::Half::input : models::Half::both);
      if (r > 0) exchange(b, all[r].first - 1u, true);
      if (split) run(b, all[r], true, false, batch, options, models::Half::weight);
    }
    for (const models::Param& each : model_.blocks[b]->params()) written_[each.name] = true;
    for (Rank& rank : ranks_) std::swap(rank.d_output, rank.d_input);
  }
  settle();
  for (const Rank& rank : ranks_) {
    if (rank.loss[0] != ranks_.front().loss[0]) throw std::runtime_error("ranks have different losses");
  }
  return ranks_.front().loss[0];
}

Tensors TensorRunner::grads() const {
  Tensors whole;
  for (const auto& [name, first] : ranks_.front().grads) {
    const models::Param& of = param(name);
    std::vector<double>& to = whole[name];
    to.resize(static_cast<size_t>(of.whole_elements()));
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const std::vector<double> own = ranks_[r].grads.at(name).load(core::DType::f32, of.elements());
      if (of.slice) {
        models::for_each_piece(of, static_cast<int>(r), 0, of.elements(), [&](const models::Piece& piece) {
          if (piece.whole >= 0) std::copy_n(own.data() + piece.begin, piece.count, to.data() + piece.whole);
        });
      } else if (of.summed) {
        for (size_t i = 0; i < to.size(); ++i) to[i] += own[i];
      } else if (r == 0) {
        to = own;
      } else if (to != own) {
        throw std::runtime_error("ranks have different gradients of " + name);
      }
    }
  }
  return whole;
}

double TensorRunner::most_of_padding() const {
  double most = 0;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    for (const auto& [name, grad] : ranks_[r].grads) {
      const models::Param& of = param(name);
      const std::vector<double> own = grad.load(core::DType::f32, of.elements());
      models::for_each_piece(of, static_cast<int>(r), 0, of.elements(), [&](const models::Piece& piece) {
        for (int64_t i = 0; i < piece.count && piece.whole < 0; ++i) {
          const double x = own[static_cast<size_t>(piece.begin + i)];
          most = std::isnan(x) ? INFINITY : std::max(most, std::abs(x));
        }
      });
    }
  }
  return most;
}

}  // namespace zrt::test
