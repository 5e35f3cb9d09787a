// A run of the harness that is saved, and goes on from what another saved.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/train/checkpoint/reader.h"
#include "runtime/train/checkpointer.h"
#include "runtime/train/delink.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_manifest.h"
#include "tests/runtime/pipeline.h"
#include "tests/temporary_folder.h"

namespace zrt::testing {

// A session that can be stepped, saved and read.
class SavingRun {
 public:
  SavingRun(const models::Model& model, const Setting& s, const std::filesystem::path& store, bool background,
            const runtime::checkpoint::Reader* from = nullptr,
            runtime::StatesAtDelink how = runtime::StatesAtDelink::copy, bool aliases = true)
      : setting_(s), pipeline_(model, s, even_ends(model, s.schedule.stages * s.schedule.chunks)) {
    std::vector<std::string> phases{from ? "load" : "init", "step", "export"};
    if (background) phases.push_back("save");
    runtime::SessionHooks hooks;
    hooks.batch = [this](int rank, uint32_t microbatch, const runtime::data::SampleRows& to) {
      if (setting_.on_batch) setting_.on_batch(rank, step_, microbatch);
      synthetic_batch(layout(), step_, rank, microbatch, to);
    };
    if (from) {
      hooks.load = [from, how, delinks = !model.shares_layers](const std::string& name, int64_t begin,
                                                               std::span<float> out) {
        if (delinks) {
          runtime::read_delinked(*from, how, name, begin, out);
        } else {
          from->read(name, begin, out);
        }
      };
      hooks.loads_states = true;
      if (aliases) hooks.origin = [from](const std::string& name) { return from->origin(name); };
      for (const runtime::Layout& each : pipeline_.layouts) runtime::require_tensors(*from, each, true);
    }
    runtime::SessionOptions options = session_options(s);
    options.nvme_path = scratch_.path.string();
    session_ = std::make_unique<runtime::Session>(pipeline_.compile(phases), std::move(options), hooks);
    session_->run(phases.front(), {});
    if (from) {
      step_ = static_cast<uint32_t>(from->manifest().step);
      const runtime::Persistent persistent =
          runtime::parse_control(from->manifest().control, layout().optimizer->members(), "test");
      for (int r = 0; r < session_->local_count(); ++r) session_->executor(r).control().persistent = persistent;
    }
    checkpointer_ = std::make_unique<runtime::Checkpointer>(
        *session_, runtime::CheckpointOptions{[store] { return store; }, 1000, 0, background},
        [this](const runtime::SaveOutcome& outcome) { outcome_ = outcome; });
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i, ++step_) session_->run("step", {setting_.seed, step_, 0, {setting_.rate}});
  }
  void save() {
    runtime::checkpoint::Manifest manifest;
    manifest.step = step_;
    manifest.optimizer = "AdamW";
    manifest.model = model_section;
    manifest.made_by = runtime::checkpoint::Json::object();
    manifest.made_by["optimizers"] = runtime::optimizers_json(pipeline_.layouts);
    if (sharing) manifest.made_by[runtime::checkpoint::shared_layers] = runtime::checkpoint::sharing_json(*sharing);
    manifest.control = runtime::control_json(session_->executor(0).control().persistent, layout().optimizer->members());
    checkpointer_->save(manifest);
  }
  runtime::checkpoint::Json model_section = runtime::checkpoint::Json::object();  // of what is saved
  std::optional<models::Sharing> sharing;                                         // of the model
  runtime::SaveOutcome saved() {
    checkpointer_->wait();
    return outcome_;
  }
  std::string hash() { return session_->state_xxh3(); }
  std::map<std::string, std::vector<float>> tensors() {
    std::map<std::string, std::vector<float>> by_name;
    session_->export_weights([&](const models::Param& param, const float* values) {
      by_name[param.name].assign(values, values + param.whole_elements());
    });
    return by_name;
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (const auto& [name, values] : tensors()) all.insert(all.end(), values.begin(), values.end());
    return all;
  }
  runtime::Session& session() { return *session_; }
  const runtime::Layout& layout() const { return pipeline_.layouts.front(); }
  // True where every rank's tiers hold exactly what was planned.
  bool as_planned() {
    for (int r = 0; r < session_->local_count(); ++r) {
      const auto& tiers = session_->stage(r).plan.tiers;
      for (core::Tier tier : {core::Tier::device, core::Tier::host}) {
        const core::Arena* arena = session_->arena(r, tier);
        if ((arena ? arena->highest_touched() : 0) != tiers[static_cast<size_t>(tier)].peak_bytes) return false;
      }
      const offload::BlockFile* file = session_->file(r);
      if ((file ? file->highest_written() : 0) != tiers[static_cast<size_t>(core::Tier::nvme)].peak_bytes) return false;
    }
    return true;
  }

 private:
  TemporaryFolder scratch_;
  Setting setting_;
  Pipeline pipeline_;
  uint32_t step_ = 0;
  std::unique_ptr<runtime::Session> session_;
  std::unique_ptr<runtime::Checkpointer> checkpointer_;
  runtime::SaveOutcome outcome_;
};

}  // namespace zrt::testing
