#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/report/draw/page.h"
#include "runtime/report/draw/svg.h"
#include "runtime/report/sections.h"

namespace zrt::runtime::report {
namespace {

using Json = nlohmann::json;

// "" for what is not there; a table's cell otherwise.
std::string text(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string model_text(const RunData& run) {
  std::string text_of_model = text(run.key("model", "preset"));
  if (text_of_model.empty()) text_of_model = text(run.key("model", "type"));
  for (const char* size : {"layers", "hidden", "heads", "sequence", "vocab"}) {
    const std::string value = text(run.key("model", size));
    if (!value.empty()) text_of_model += fmt::format("{}{} {}", text_of_model.empty() ? "" : ", ", size, value);
  }
  return text_of_model;
}

std::string precision_text(const RunData& run) {
  if (!run.config.is_object()) return "";
  if (run.key("fp8", "enabled") == true) return "bf16, products of linear layers in fp8";
  if (run.key("bf16", "enabled") == true) return "bf16";
  return run.key("fp16", "enabled") == true ? "fp16" : "fp32";
}

std::string duration_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  return seconds < 7200 ? fmt::format("{:.0f} min", seconds / 60) : fmt::format("{:.1f} h", seconds / 3600);
}

// A summary is of the last time that the run came to an end; a run that was resumed writes on beyond it.
std::string state_text(const RunData& run) {
  const int64_t last = run.steps.empty() ? 0 : run.steps.back().step;
  const double planned =
      number(run.key("run", "steps").is_number() ? Json{{"n", run.key("run", "steps")}} : Json{}, "n");
  const std::string of = std::isfinite(planned) ? fmt::format(" of {:.0f}", planned) : "";
  const double ended = number(run.summary, "steps");
  if (std::isfinite(ended) && ended >= static_cast<double>(last)) {
    return fmt::format("{} after step {:.0f}{}", text(run.summary.value("exit_reason", Json("ended"))), ended, of);
  }
  const double age = run.heartbeat_age_seconds;
  const double step_seconds = run.steps.empty() ? NAN : run.steps.back().step_seconds;
  const double patience = std::max(60.0, std::isfinite(step_seconds) ? 5 * step_seconds : 0.0);
  if (std::abs(age) <= patience) return fmt::format("running: {}{} steps done", last, of);
  return fmt::format(
      "not ended by itself: {}{} steps done, {}. It was killed, or the machine was; `zrt train --resume "
      "auto` goes on from its newest checkpoint.",
      last, of,
      !std::isfinite(age) ? "there is no heartbeat file"
      : age < 0           ? "and its last sign of life lies " + duration_text(-age) + " ahead: a clock was set back"
                          : "no sign of life for " + duration_text(age));
}

std::string events_text(const RunData& run) {
  std::string all;
  for (const Json& event : run.events) {
    const std::string reason = text(event.value("reason", Json()));
    all += fmt::format("{}{} at step {}{}", all.empty() ? "" : "; ", text(event.value("event", Json("event"))),
                       text(event.value("step", Json(0))), reason.empty() ? "" : " (" + reason + ")");
  }
  return all;
}

}  // namespace

Parts facts(const RunData& run) {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) rows.push_back({name, value});
  };
  row("state", state_text(run));
  row("failure", run.failure.is_object() ? text(run.failure.value("message", Json())) : "");
  row("model", model_text(run));
  row("precision", precision_text(run));
  row("ZeRO stage", text(run.key("zero_optimization", "stage")));
  if (const Json stages = run.key("parallel", "pipeline"); stages.is_number() && stages > 1) {
    row("pipeline", fmt::format("{} stages, {}", text(stages), text(run.key("parallel", "schedule"))));
  }
  row("batch", text(run.key("", "train_batch_size")));
  row("optimizer", text(run.key("optimizer", "type")));
  if (run.memory.contains("ranks") && run.memory["ranks"].is_array()) {
    row("ranks", std::to_string(run.memory["ranks"].size()));
  }
  if (!run.steps.empty()) row("last loss", fmt::format("{:.6g}", run.steps.back().loss));
  if (!run.evaluations.empty()) {
    const EvaluationRow& last = run.evaluations.back();
    row("held-out loss",
        fmt::format(
            "{:.6g} after step {}{}", last.loss, last.step,
            std::isfinite(last.bits_per_byte) ? fmt::format(", {:.4f} bits per byte", last.bits_per_byte) : ""));
  }
  if (const double rate = number(run.summary, "tokens_per_second"); rate > 0) {
    row("median speed",
        fmt::format("{} tokens/s, {} per step, {:.4g} model GFLOP/s", draw::number_text(rate, draw::Unit::plain),
                    draw::number_text(number(run.summary, "step_seconds"), draw::Unit::seconds),
                    number(run.summary, "model_flops_per_second") / 1e9));
  }
  row("state_xxh3", run.summary.is_object() ? text(run.summary.value("state_xxh3", Json())) : "");
  row("resumed from", text(run.key("run", "resume")));
  row("supervisor", events_text(run));
  Parts parts{draw::table({}, rows)};
  if (run.notes.empty()) return parts;
  std::string notes = "<ul class=\"notes\">\n";
  for (const std::string& note : run.notes) notes += "<li>" + draw::escaped(note) + "</li>\n";
  parts.push_back(notes + "</ul>\n");
  return parts;
}

}  // namespace zrt::runtime::report
