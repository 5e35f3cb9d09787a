// One optimizer's part of the configuration: its types, the keys of `optimizer.params` that they read, and how it is
// made of their values. Each optimizer's file holds its own; optimizer_specs() lists them all, and nothing else knows
// their names.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/keys/key.h"
#include "core/keys/values.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer {

struct OptimizerSpec {
  std::vector<std::string> types;         // values of optimizer.type, in any case
  const char* variant;                    // the same in lower case: "adam, adamw"
  std::span<const core::keys::Key> keys;  // of optimizer.params
  bool forms;                             // whether memory.moments and memory.master may ask for other forms than fp32
  // `type` in lower case. What is wrong is gathered in `values`, or thrown as ConfigError where it ends the work.
  OptimizerPtr (*read)(core::keys::Values& values, const std::string& type);
};

inline constexpr double largest_rate = 1e6;           // any larger learning rate is a mistake
inline constexpr const char* default_type = "AdamW";  // of a run that names none
const std::vector<const OptimizerSpec*>& optimizer_specs();
const OptimizerSpec* find_optimizer_spec(std::string_view type);  // in any case; null: there is none
std::vector<std::string> optimizer_type_names();
std::string optimizer_types();  // "Adam, AdamW, SGD and Lion", for messages

// Read keys of optimizer.params for `read`.
float read_float(const core::keys::Values& values, const char* key);
std::pair<float, float> read_betas(const core::keys::Values& values);  // two numbers
// Reads memory.moments; a value that is none is told by the reader of that key's section.
Moments read_moments(const core::keys::Values& values);

}  // namespace zrt::optimizer
