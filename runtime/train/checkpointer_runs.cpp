// Says what each rank adds to a checkpoint, and where it lies.
#include <algorithm>

#include "runtime/train/checkpointer.h"

namespace zrt::runtime {

using checkpoint::Run;

// This rank's part of a unit, as a run that lacks its tensor: source 0 is the logical weights, then come the state
// kinds.
Run Checkpointer::place(size_t local, size_t unit, size_t source, offload::ExtentReader* file) const {
  const Compiled& compiled = session_.stage(static_cast<int>(local));
  const Layout& layout = session_.stage(static_cast<int>(local)).layout;
  const StateBuffers& state = compiled.state;
  const bool copied = options_.background;
  const BufferId id = copied        ? state.snapshot[unit][source]
                      : source == 0 ? state.logical(unit)
                                    : state.states[unit][source - 1];
  const Buffer& buffer = compiled.set.buffers[id];
  const optimizer::Unit& u = layout.units.units[unit];
  const int rank = session_.first_local() + static_cast<int>(local);
  Run run;
  run.form = source == 0 ? layout.saved_form(u) : layout.optimizer->states(u)[source - 1].form;
  const bool cut = source == 0 || layout.optimizer->states(u)[source - 1].sharded;
  const optimizer::Extent held = source == 0 ? layout.logical_extent(u) : u.held.states;
  const int64_t first = copied || !cut ? 0 : saved_part(u, layout.mesh, rank).offset(held);
  const uint64_t skip = core::form_bytes(run.form, first);
  if (buffer.tier == core::Tier::nvme) {
    run.read = [file, offset = buffer.offset, bytes = buffer.padded(), skip](
                   uint64_t at, std::byte* to, uint64_t count) { file->read(offset, bytes, skip + at, to, count); };
    return run;
  }
  run.values = session_.arena(static_cast<int>(local), buffer.tier)->data() + buffer.offset + skip;
  run.device = buffer.tier == core::Tier::device ? layout.device : core::DeviceKind::cpu;
  return run;
}

namespace {

// Elements [begin, begin + count) of a tensor, which begin with element `first` of a part of a unit.
Run run_of(const Run& part, int64_t first, std::string tensor, std::vector<int64_t> shape, int64_t begin,
           int64_t count) {
  Run run = part;
  run.tensor = std::move(tensor), run.shape = std::move(shape), run.begin = begin, run.count = count;
  const uint64_t skip = core::form_bytes(part.form, first);
  if (!part.read) {
    run.values += skip;
  } else if (skip > 0) {
    run.read = [read = part.read, skip](uint64_t at, std::byte* to, uint64_t bytes) { read(skip + at, to, bytes); };
  }
  return run;
}

// The parts of a unit's parameters that lie in what one rank saves.
void add_runs(std::vector<Run>& runs, const optimizer::Unit& unit, const std::string& kind, optimizer::SavedPart piece,
              const Run& part, int tensor_rank, int expert_rank,
              const std::function<bool(const std::string&)>& left_out = nullptr) {
  const int64_t begin = piece.begin, end = begin + piece.count;
  for (const optimizer::UnitParam& place : unit.params) {
    const int64_t from = std::max(begin, place.offset), to = std::min(end, place.offset + place.param->elements());
    if (from >= to) continue;
    const std::string param = place.param->name_at(expert_rank);
    if (!unit.trained && left_out && left_out(param)) continue;
    const std::string name = kind.empty() ? param : state_name(kind, param);
    runs.push_back(run_of(part, from - begin, name, place.param->shape, from - place.offset, to - from));
    runs.back().slice = place.param->slice, runs.back().tensor_rank = tensor_rank;
  }
}

}  // namespace

std::vector<Run> Checkpointer::weights(size_t local, offload::ExtentReader* file) const {
  std::vector<Run> runs;
  const Layout& layout = session_.stage(static_cast<int>(local)).layout;
  const auto& units = layout.units.units;
  const int rank = session_.first_local() + static_cast<int>(local);
  const int tensor_rank = layout.mesh.place(Axis::tensor, rank);
  const int expert_rank = layout.mesh.place(Axis::expert, rank);
  for (size_t u = 0; u < units.size(); ++u) {
    if (units[u].counted_elsewhere) continue;             // another stage saves it
    if (!units[u].sliced() && tensor_rank > 0) continue;  // the first of the ranks that all have it does
    const optimizer::SavedPart piece = saved_part(units[u], layout.mesh, rank);
    add_runs(runs, units[u], "", piece, place(local, u, 0, file), tensor_rank, expert_rank, options_.lies_elsewhere);
  }
  return runs;
}

std::vector<Run> Checkpointer::states(size_t local, offload::ExtentReader* file) const {
  std::vector<Run> runs;
  const Layout& layout = session_.stage(static_cast<int>(local)).layout;
  const int rank = session_.first_local() + static_cast<int>(local);
  const int tensor_rank = layout.mesh.place(Axis::tensor, rank);
  const int expert_rank = layout.mesh.place(Axis::expert, rank);
  for (size_t u = 0; u < layout.units.units.size(); ++u) {
    if (layout.units.units[u].counted_elsewhere) continue;
    if (!layout.units.units[u].sliced() && tensor_rank > 0) continue;
    const auto kinds = layout.optimizer->states(layout.units.units[u]);
    for (size_t k = 0; k < kinds.size(); ++k) {
      const Run part = place(local, u, k + 1, file);
      if (kinds[k].sharded) {
        add_runs(runs, layout.units.units[u], kinds[k].kind, saved_part(layout.units.units[u], layout.mesh, rank), part,
                 tensor_rank, expert_rank);
        continue;
      }
      const Axes same = stage_axes.without(layout.units.units[u].apart_axes());
      if (layout.mesh.place(same, rank) > 0) continue;  // the first of the ranks that hold the same does
      for (const optimizer::StateTensor& tensor : kinds[k].tensors) {
        runs.push_back(run_of(part, tensor.offset, state_name(kinds[k].kind, tensor.param->param->name_at(expert_rank)),
                              tensor.shape, 0, tensor.elements()));
      }
    }
  }
  return runs;
}

}  // namespace zrt::runtime
