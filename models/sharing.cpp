#include "models/sharing.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "models/forwarding_block.h"

namespace zrt::models {
namespace {

// The part of a name that is a layer's number.
struct Number {
  size_t begin = 0, end = 0;
  int64_t value = -1;
};
Number number_in(const std::string& param) {
  for (size_t begin = 0; begin < param.size();) {
    const size_t end = std::min(param.find('.', begin), param.size());
    Number number{begin, end};
    const auto read = std::from_chars(param.data() + begin, param.data() + end, number.value);
    if (begin < end && read.ec == std::errc() && read.ptr == param.data() + end && number.value >= 0) return number;
    begin = end + 1;
  }
  return {};
}

bool stays_private(const Sharing& sharing, const std::string& param) {
  return std::any_of(sharing.own.begin(), sharing.own.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), param.c_str(), 0) == 0; });
}

struct Group {
  int64_t first = 0, size = 1;
};
// The group of the layer that a parameter belongs to; nothing where it is shared with no other layer.
std::optional<Group> group_of(const Sharing& sharing, const std::string& param) {
  const int64_t layer = layer_of(param);
  if (layer < 0 || stays_private(sharing, param)) return std::nullopt;
  int64_t first = 0;
  for (const int64_t size : sharing.groups) {
    if (layer < first + size) return Group{first, size};
    first += size;
  }
  return std::nullopt;
}

class SharedBlock final : public ForwardingBlock {
 public:
  SharedBlock(std::shared_ptr<const Block> inner, const Sharing& sharing)
      : ForwardingBlock(std::move(inner)), params_(this->inner().params()) {
    for (Param& param : params_) param.name = shared_name(sharing, param.name);
  }
  const std::vector<Param>& params() const override { return params_; }

 private:
  std::vector<Param> params_;
};

}  // namespace

int64_t Sharing::layers() const {
  return std::accumulate(groups.begin(), groups.end(), int64_t{0});
}

int64_t layer_of(const std::string& param) {
  return number_in(param).value;
}

std::string with_layer(const std::string& param, int64_t layer) {
  const Number number = number_in(param);
  if (number.value < 0) return param;
  return param.substr(0, number.begin) + std::to_string(layer) + param.substr(number.end);
}

std::string shared_name(const Sharing& sharing, const std::string& param) {
  const std::optional<Group> group = group_of(sharing, param);
  return group ? with_layer(param, group->first) : param;
}

int64_t sharers(const Sharing& sharing, const std::string& param) {
  const std::optional<Group> group = group_of(sharing, param);
  return group ? group->size : 1;
}

Model share(const Model& model, const Sharing& sharing) {
  if (sharing.layers() != model.layers) {
    throw core::ConfigError(
        fmt::format("pseudo_to_real.groups has {} layers in all ({}), but the model has {}. Give sizes whose sum is "
                    "that, or a number "
                    "of equal groups that divides it.",
                    sharing.layers(), fmt::join(sharing.groups, " + "), model.layers));
  }
  Model shared = model;
  const auto numbers = std::make_shared<const std::map<std::string, uint32_t>>(model.canonical_numbers());
  std::map<std::string, Param> known;
  for (std::shared_ptr<const Block>& block : shared.blocks) {
    block = std::make_shared<SharedBlock>(block, sharing);
    for (const Param& param : block->params()) {
      if (!numbers->contains(param.name)) {
        throw core::ConfigError(fmt::format(
            "pseudo_to_real: block '{}' would share '{}' with a layer that has no such parameter, as where some layers "
            "have experts and others have none; give these layers groups of their own",
            block->name(), param.name));
      }
      const Param& first = known.try_emplace(param.name, param).first->second;
      if (alike(first, param)) continue;
      throw core::ConfigError(
          fmt::format("pseudo_to_real: '{}' of block '{}' differs in shape from the layer that it would share it with; "
                      "give these layers groups of their own",
                      param.name, block->name()));
    }
  }
  shared.shares_layers = true;
  shared.param_numbers = numbers;
  std::erase_if(shared.frozen, [&](const std::string& name) { return shared_name(sharing, name) != name; });
  return shared;
}

}  // namespace zrt::models
