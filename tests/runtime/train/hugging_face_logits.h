// Computes the logits of a folder of Hugging Face in zrt, for tests that compare them.
#pragma once
#include <cstring>
#include <string>
#include <vector>

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

inline runtime::Config config_of(const Reader& folder, const runtime::Settings& sets = {}) {
  return runtime::hugging_face_config(folder, sets);
}

// Logits of every position, token by token through the key/value cache.
inline std::vector<std::vector<float>> logits_of(const runtime::Config& config, const Reader& reader,
                                                 const std::vector<int32_t>& tokens) {
  const models::Model model = config.model.make();
  runtime::Layout layout = runtime::make_layouts(config, model).front();
  layout.device = zrt::test::test_device();
  runtime::require_tensors(reader, layout, false);
  int32_t token = 0;
  runtime::Session session(
      runtime::compile(layout, {"load", "decode"}), runtime::session_options(config),
      {[&](int, uint32_t, int32_t* out, int32_t*) { out[0] = token; },
       [&](const std::string& name, int64_t begin, std::span<float> out) { reader.read(name, begin, out); }});
  session.run("load", {});
  std::vector<std::vector<float>> result;
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

}  // namespace zrt::hugging_face_logits
