// Computes the logits of a folder of Hugging Face in zrt, for tests that compare them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "catch.h"
#include "runtime/config/config.h"
#include "runtime/engine/session_options.h"
#include "runtime/plan/setup.h"
#include "runtime/train/checkpoint/hugging_face.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_manifest.h"
#include "tests/device.h"

namespace zrt::hugging_face_logits {

using runtime::checkpoint::Json;
using runtime::checkpoint::Reader;

using Logits = std::vector<std::vector<float>>;  // (tokens, vocabulary)

inline runtime::Config config_of(const Reader& folder, const runtime::Settings& sets = {}) {
  return runtime::hugging_face_config(folder, sets);
}

// Logits of every position, token by token through the key/value cache.
inline Logits logits_of(const runtime::Config& config, const Reader& reader, const std::vector<int32_t>& tokens) {
  const models::Model model = config.model.make();
  runtime::Layout layout = runtime::make_layouts(config, model).front();
  layout.device = zrt::test::test_device();
  runtime::require_tensors(reader, layout, false);
  int32_t token = 0;
  runtime::Session session(
      runtime::compile(layout, {"load", "decode"}), runtime::session_options(config),
      {[&](int, uint32_t, const runtime::data::SampleRows& to) { to.tokens[0] = token; },
       [&](const std::string& name, int64_t begin, std::span<float> out) { reader.read(name, begin, out); }});
  session.run("load", {});
  Logits result;
  for (size_t position = 0; position < tokens.size(); ++position) {
    token = tokens[position];
    runtime::StepInputs inputs;
    inputs.position = static_cast<int64_t>(position);
    session.run("decode", inputs);
    const std::vector<std::byte> output = session.executor(0).read("decode output of " + model.blocks.back()->name());
    std::vector<float>& logits = result.emplace_back(config.model.vocab);
    std::memcpy(logits.data(), output.data(), logits.size() * sizeof(float));
  }
  return result;
}

// The largest difference.
inline double distance(const Logits& a, const Logits& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t t = 0; t < a.size(); ++t) {
    REQUIRE(a[t].size() == b[t].size());
    for (size_t v = 0; v < a[t].size(); ++v) {
      most = std::max(most, std::abs(static_cast<double>(a[t][v]) - static_cast<double>(b[t][v])));
    }
  }
  return most;
}

inline void contains(const std::string& text, const std::string& part) {
  INFO(text << "\nlacks: " << part);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace zrt::hugging_face_logits
