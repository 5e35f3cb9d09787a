#include <fmt/format.h>

#include <map>
#include <optional>

#include "optimizer/optimizer.h"
#include "runtime/ops/spec.h"
#include "runtime/program/control.h"
#include "runtime/program/expert_loads.h"
#include "runtime/program/export_piece.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/execution.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {
namespace {

using models::Mode;

class SizeChecker {
 public:
  SizeChecker(const ProgramSet& set, const Program& program, const Layout& layout, const std::vector<PartOrder>& orders)
      : set_(set), program_(program), layout_(layout), orders_(orders), optimizer_(layout.optimizer) {}

  void check() {
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      const Op& op = program_.ops[id];
      std::array<uint32_t, role_count> seen{};
      for (const Access& access : op.accesses) {
        const uint32_t nth = seen[static_cast<size_t>(access.role)]++;
        const std::optional<uint64_t> needed = bytes(op, access, nth);
        // Ranks find each other's part of a port by the size of all of it.
        const uint64_t there = set_.buffers[access.buffer].bytes;
        if (!needed || (op.kind == OpKind::exchange ? there == *needed : there >= *needed)) continue;
        fail(id, access.buffer, *needed);
      }
    }
  }

 private:
  static Mode mode(const Op& op) { return spec(op.kind).block.value_or(Mode::train); }
  Mode mode_of(const Op& op) const {
    if (op.kind != OpKind::exchange && !crosses(op)) return mode(op);
    return program_.phase == "eval" ? Mode::eval : program_.phase == "decode" ? Mode::decode : Mode::train;
  }

  // The bytes that a block asks for; asked once per block and kind, because blocks look up kernels to know.
  struct BlockBytes {
    uint64_t saved = 0, recomputed = 0, workspace = 0, cache = 0;
  };
  const BlockBytes& block_bytes(const Op& op) {
    const auto [found, inserted] = blocks_.try_emplace({op.block, op.kind});
    if (!inserted) return found->second;
    const models::Block& block = *layout_.model->blocks[op.block];
    const models::Shape shape = layout_.shape(mode(op), op.block);
    BlockBytes& bytes = found->second;
    if (shape.mode != Mode::train) bytes.saved = models::lay_out_saved(block, shape, models::all_parts);
    if (shape.mode == Mode::train) {
      const models::Parts left_out = orders_[op.block].left_out();
      bytes.saved = models::lay_out_saved(block, shape, models::all_parts, left_out);
      bytes.recomputed = models::lay_out_saved(block, shape, left_out);
    }
    if (shape.mode == Mode::decode) bytes.cache = block.cache_bytes(shape);
    bytes.workspace = block.forward_workspace_bytes(shape);
    return bytes;
  }

  // True for ops on what goes from stage to stage, in shares.
  static bool crosses(const Op& op) {
    return op.kind == OpKind::send || op.kind == OpKind::receive || op.kind == OpKind::gather_received;
  }

  uint64_t width_bytes(const Op& op, uint32_t block) const {
    const models::Shape shape = layout_.shape(mode(op));
    const bool last = layout_.model->predicts(block);
    const auto rows = static_cast<uint64_t>(shape.rows());
    if (last) return shape.mode == Mode::decode ? rows * 4 * static_cast<uint64_t>(layout_.model->vocab) : 0;
    return row_bytes(op, layout_.model->blocks[block]->output_width());
  }
  uint64_t row_bytes(const Op& op, int64_t width) const {
    const models::Shape shape = layout_.shape(mode(op));
    return layout_.stream_bytes(width, shape);
  }

  // Returns the bytes of a unit, as a shard where the strategy says so. A buffer may always be larger.
  uint64_t unit_bytes(uint32_t u, optimizer::Extent extent, core::DType type) const {
    return static_cast<uint64_t>(layout_.units.units[u].extent(extent)) * core::dtype_size(type);
  }

  const optimizer::Extents& held(uint32_t u) const { return layout_.units.units[u].held; }

  // Copies for an update may be of the shard alone that it works on.
  bool works_on_shard(const Op& op) const {
    const bool updates = op.kind == OpKind::update || op.kind == OpKind::propose;
    if (op.kind == OpKind::sum) return true;
    return updates && layout_.units.units[op.units[0]].held.states == optimizer::Extent::shard;
  }

  core::DType type_of(const Op& op) const {
    const auto type = spec(op.kind).type;
    return type ? type(layout_, op) : layout_.compute;
  }

  // Returns the bytes of all ranks' proposals for a unit that is refined.
  uint64_t slices_bytes(uint32_t u) const {
    const optimizer::Unit& unit = layout_.units.units[u];
    const auto slices = static_cast<uint64_t>(layout_.mesh.degree(unit.holder_axes.without(unit.shard_axes)));
    return slices * unit_bytes(u, optimizer::Extent::full, core::DType::f32);
  }
  // One rank works on one of the units.
  uint64_t refine_bytes(const Op& op) const {
    uint64_t most = 0;
    for (uint32_t u : op.units) {
      const optimizer::Unit& unit = layout_.units.units[u];
      const uint64_t matrix = unit.sliced() ? slices_bytes(u) : 0;
      most = std::max(most, matrix + optimizer_->refine_bytes(unit));
    }
    return most;
  }

  std::optional<uint64_t> bytes(const Op& op, const Access& access, uint32_t nth) {
    const auto tokens = static_cast<uint64_t>(layout_.shape(mode(op)).rows()) * 4;
    const uint32_t u =
        op.units.empty() ? 0 : op.units[op.units.size() == 1 ? 0 : std::min<size_t>(nth, op.units.size() - 1)];
    const bool block = runs_block(op.kind);
    switch (access.role) {
      case Role::tokens:
      case Role::targets:
      case Role::positions:
        // Its readers show which mode a batch is for.
        return block ? std::optional(tokens) : std::nullopt;
      case Role::input:
      case Role::d_input:
        if (layout_.model->embeds(op.block)) return 0;
        if (crosses(op))
          return layout_.boundary_bytes(layout_.model->input_width(op.block), layout_.shape(mode_of(op)));
        return layout_.model->receives(op.block) ? row_bytes(op, layout_.model->input_width(op.block))
                                                 : width_bytes(op, op.block - 1);
      case Role::output:
      case Role::d_output:
        if (crosses(op)) {
          return layout_.boundary_bytes(layout_.model->blocks[op.block]->output_width(), layout_.shape(mode_of(op)));
        }
        return width_bytes(op, op.block);
      case Role::saved:
        return block_bytes(op).saved;
      case Role::recomputed:
        return block_bytes(op).recomputed;
      case Role::held:
        return models::lay_out_held(*layout_.model->blocks[op.block], layout_.shape(Mode::train, op.block),
                                    orders_[op.block].held_with(op.parts));
      case Role::port:
      case Role::d_port:
        return orders_[op.block].port_bytes(layout_.model->blocks[op.block]->anatomy().ports.at(access.port),
                                            layout_.shape(mode_of(op)));
      case Role::all_parts:
        return static_cast<uint64_t>(elements_of_piece(layout_, layout_.units.units[u]) *
                                     layout_.mesh.degree(layout_.units.units[u].slice_axes())) *
               core::dtype_size(layout_.logical_type(layout_.units.units[u]));
      case Role::workspace:
        if (op.kind == OpKind::backward) {
          return layout_.model->blocks[op.block]->backward_workspace_bytes(layout_.shape(Mode::train, op.block),
                                                                           op.parts, op.half);
        }
        return op.kind == OpKind::refine ? refine_bytes(op) : block_bytes(op).workspace;
      case Role::cache:
        return block_bytes(op).cache;
      case Role::weight:
        if (!block && layout_.units.units[u].packed) {
          return core::form_bytes(*layout_.units.units[u].packed, layout_.units.units[u].extent(held(u).weights));
        }
        return unit_bytes(u, block ? optimizer::Extent::full : optimizer::Extent::shard, type_of(op));
      case Role::packed:  // its units are all packed, and have one each or none
        return layout_.units.units[u].packed
                   ? core::form_bytes(*layout_.units.units[u].packed, layout_.units.units[u].elements)
                   : 0;
      case Role::local_grad:
        return unit_bytes(u, optimizer::Extent::full, layout_.local_grad);
      case Role::grad:
        return unit_bytes(u, works_on_shard(op) ? optimizer::Extent::shard : held(u).grads, layout_.grad);
      case Role::master:
        return unit_bytes(u, held(u).states, core::DType::f32);
      case Role::state: {
        const auto kinds = layout_.optimizer->states(layout_.units.units[u]);
        if (nth >= kinds.size()) return std::nullopt;
        return kinds[nth].bytes_of(layout_.units.units[u]);
      }
      case Role::sums:
        return optimizer_->share_bytes(layout_.units.units[u], op.round) *
               static_cast<uint64_t>(layout_.mesh.degree(layout_.units.units[u].holder_axes));
      case Role::work:
        return optimizer_->work_bytes(layout_.units.units[u]);
      case Role::proposal:
        return unit_bytes(u, held(u).states, core::DType::f32);
      case Role::refined: {
        uint64_t most = 0;
        for (uint32_t each : op.units) most = std::max(most, slices_bytes(each));
        return most;
      }
      case Role::full_state:
        if (op.kind == OpKind::snapshot) return std::nullopt;
        return unit_bytes(u, optimizer::Extent::full, type_of(op));
      case Role::partial:
        return unit_bytes(u, optimizer::Extent::full, type_of(op)) / static_cast<uint64_t>(layout_.mesh.inner());
      case Role::snapshot:
      case Role::staging:  // of the mode that the batch's readers have
        return std::nullopt;
      case Role::control:
        return sizeof(Control);
      case Role::loads:
        return expert_load_bytes(*layout_.model);
      case Role::copied:  // the rule of copies compares the two
      case Role::copy:
        return std::nullopt;
      case Role::shares:
        return sizeof(ControlShare) * static_cast<uint64_t>(layout_.mesh.world());
    }
    return std::nullopt;
  }

  [[noreturn]] void fail(OpId id, BufferId buffer, uint64_t needed) const {
    throw Fault({&program_, {id, 0}, buffer},
                fmt::format("program '{}' is not safe: '{}' uses {} bytes of buffer '{}', which has {}{}",
                            program_.phase, program_.ops[id].name, needed, set_.buffers[buffer].name,
                            set_.buffers[buffer].bytes, other_user(set_, program_.ops[id], buffer)));
  }

  const ProgramSet& set_;
  const Program& program_;
  const Layout& layout_;
  const std::vector<PartOrder>& orders_;
  std::shared_ptr<const optimizer::Optimizer> optimizer_;
  std::map<std::pair<uint32_t, OpKind>, BlockBytes> blocks_;
};

}  // namespace

void check_sizes(const ProgramSet& set, const Program& program, const Layout& layout,
                 const std::vector<PartOrder>& orders) {
  SizeChecker(set, program, layout, orders).check();
}

}  // namespace zrt::runtime::verification
