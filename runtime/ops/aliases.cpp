#include "runtime/ops/aliases.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "models/param.h"
#include "optimizer/state.h"
#include "runtime/ops/rank.h"

namespace zrt::runtime {
namespace {

using optimizer::Extent;

// A tensor's place among the elements that a buffer has a part of.
struct Tensor {
  const models::Param* param;
  int64_t offset, elements;
  std::string origin;
};

// The values that `load` puts into a buffer.
struct Contents {
  BufferId buffer;
  core::Form form;
  int64_t first, count;  // elements of the unit, or of a state that is held whole
  uint64_t padded;
  std::vector<Tensor> tensors;
};

// True if both are loaded alike except for the tensors' names.
bool alike(const Contents& a, const Contents& b) {
  return a.form == b.form && a.first == b.first && a.count == b.count && a.padded == b.padded &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const Tensor& x, const Tensor& y) {
                      return x.offset == y.offset && x.elements == y.elements && models::alike(*x.param, *y.param);
                    });
}

// The whole pieces in which two that are alike have no tensor of different origin.
std::vector<offload::ExtentPart> equal_parts(const Contents& a, const Contents& b, uint64_t piece) {
  std::vector<uint8_t> differs((a.padded + piece - 1) / piece);
  const int64_t alignment = core::form_alignment(a.form);
  for (size_t t = 0; t < a.tensors.size(); ++t) {
    const Tensor& tensor = a.tensors[t];
    const int64_t begin = std::max(tensor.offset - a.first, int64_t{0});
    const int64_t end = std::min(tensor.offset + tensor.elements - a.first, a.count);
    if (tensor.origin == b.tensors[t].origin || begin >= end) continue;
    const uint64_t from = core::form_bytes(a.form, begin / alignment * alignment);
    const uint64_t to = core::form_bytes(a.form, (end + alignment - 1) / alignment * alignment);
    std::fill(differs.begin() + static_cast<std::ptrdiff_t>(from / piece),
              differs.begin() + static_cast<std::ptrdiff_t>((to + piece - 1) / piece), uint8_t{1});
  }
  std::vector<offload::ExtentPart> parts;
  for (uint64_t p = 0; p < differs.size(); ++p) {
    if (differs[p]) continue;
    const uint64_t end = std::min((p + 1) * piece, a.padded);
    if (!parts.empty() && parts.back().end == p * piece) {
      parts.back().end = end;
    } else {
      parts.push_back({p * piece, end});
    }
  }
  return parts;
}

}  // namespace

Aliases::Aliases(const ProgramSet& set, const Layout& layout, const StateBuffers& state, int rank, const Origin& origin,
                 bool states, uint64_t piece)
    : state_(state) {
  // The first buffer of a kind with values from a tensor. One that has aliases stands for them too.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const Contents>> first;
  const auto add = [&](const std::string& kind, Contents contents) {
    for (const Tensor& tensor : contents.tensors) {
      const auto of = first.find({kind, tensor.origin});
      if (of == first.end() || !alike(*of->second, contents)) continue;
      Alias alias{of->second->buffer, equal_parts(*of->second, contents, piece)};
      if (!alias.parts.empty()) found_[contents.buffer] = std::move(alias);
      return;
    }
    const auto kept = std::make_shared<const Contents>(std::move(contents));
    for (const Tensor& tensor : kept->tensors) first.try_emplace({kind, tensor.origin}, kept);
  };
  const int expert = layout.mesh.place(Axis::expert, rank);
  for (size_t u = 0; u < layout.units.units.size(); ++u) {
    const optimizer::Unit& unit = layout.units.units[u];
    const auto laid_out_like_unit = [&](BufferId buffer, core::Form form, Extent held, const std::string& kind) {
      const int64_t begin = held == Extent::full ? 0 : layout.mesh.place(unit.shard_axes, rank) * unit.shard;
      Contents contents{buffer, form, begin, unit.extent(held), set.buffers[buffer].padded(), {}};
      for (const optimizer::UnitParam& place : unit.params) {
        const std::string name = place.param->name_at(expert);
        contents.tensors.push_back(
            {place.param, place.offset, place.param->elements(), origin(kind.empty() ? name : state_name(kind, name))});
      }
      return contents;
    };
    const auto on_nvme = [&](BufferId buffer) {
      return buffer != no_buffer && set.buffers[buffer].tier == core::Tier::nvme;
    };
    if (on_nvme(state.weight[u])) {
      add("weight", laid_out_like_unit(state.weight[u], layout.weight_form(unit), unit.held.weights, ""));
    }
    if (on_nvme(state.master[u])) {
      add("master", laid_out_like_unit(state.master[u], core::Form::f32, unit.held.states, ""));
    }
    if (!states || state.states[u].empty()) continue;
    const auto kinds = layout.optimizer->states(unit);
    for (size_t k = 0; k < kinds.size(); ++k) {
      const BufferId buffer = state.states[u][k];
      if (!on_nvme(buffer)) continue;
      if (kinds[k].sharded) {
        add(kinds[k].kind, laid_out_like_unit(buffer, kinds[k].form, unit.held.states, kinds[k].kind));
        continue;
      }
      Contents contents{buffer, kinds[k].form, 0, kinds[k].elements, set.buffers[buffer].padded(), {}};
      for (const optimizer::StateTensor& tensor : kinds[k].tensors) {
        const models::Param& param = *tensor.param->param;
        contents.tensors.push_back(
            {&param, tensor.offset, tensor.elements(), origin(state_name(kinds[k].kind, param.name_at(expert)))});
      }
      add(kinds[k].kind, std::move(contents));
    }
  }
}

const Alias* Aliases::find(BufferId resident) const {
  const auto at = found_.find(resident);
  return at == found_.end() ? nullptr : &at->second;
}

bool Aliases::cover(BufferId resident, core::Form form, int64_t first, int64_t count) const {
  const Alias* alias = find(resident);
  if (!alias) return false;
  const uint64_t begin = core::form_bytes(form, first), end = core::form_bytes(form, first + count);
  return std::any_of(alias->parts.begin(), alias->parts.end(),
                     [&](const offload::ExtentPart& part) { return part.begin <= begin && end <= part.end; });
}

}  // namespace zrt::runtime
