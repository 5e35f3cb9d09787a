// Schedules by the names of transformers, against what its own set.
#include "optimizer/named_schedule.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.h"
#include "optimizer/schedule.h"
#include "tests/data_folder.h"

namespace zrt::optimizer::named_schedule_test {
namespace {

using nlohmann::json;

Bend bend(const std::string& name) {
  return name == "linear" ? Bend::linear : name == "cosine" ? Bend::cosine : Bend::root;
}

const std::map<std::string, NamedShape> shapes{{"constant_with_warmup", NamedShape::constant_with_warmup},
                                               {"linear", NamedShape::linear},
                                               {"cosine", NamedShape::cosine},
                                               {"cosine_with_restarts", NamedShape::cosine_with_restarts},
                                               {"polynomial", NamedShape::polynomial},
                                               {"inverse_sqrt", NamedShape::inverse_sqrt},
                                               {"cosine_with_min_lr", NamedShape::cosine},
                                               {"warmup_stable_decay", NamedShape::warmup_stable_decay}};

// Arguments that are not given have transformers' defaults.
Schedule read(const json& golden, double lr) {
  const json& p = golden["params"];
  const std::string type = golden["type"];
  Schedule s;
  s.lr = lr;
  if (type == "constant") return s;
  s.type = ScheduleType::named;
  NamedSchedule& n = s.named;
  n.shape = shapes.at(type);
  n.warmup = p.value("num_warmup_steps", 0);
  n.total = p.value("num_training_steps", 0);
  n.cycles = p.value("num_cycles", type == "cosine_with_restarts" ? 1.0 : 0.5);
  n.power = p.value("power", 1.0);
  if (type == "polynomial") n.floor = p.value("lr_end", 1e-7) / lr;
  if (type == "cosine_with_min_lr")
    n.floor = p.contains("min_lr") ? p["min_lr"].get<double>() / lr : p["min_lr_rate"].get<double>();
  n.timescale = p.value("timescale", n.warmup > 0 ? n.warmup : 10000);
  n.decay = p.value("num_decay_steps", 0);
  n.stable = p.value("num_stable_steps", n.total - n.warmup - n.decay);
  n.warmup_bend = bend(p.value("warmup_type", "linear")), n.decay_bend = bend(p.value("decay_type", "cosine"));
  if (type == "warmup_stable_decay") n.floor = p.value("min_lr_ratio", 0.0);
  return s;
}

}  // namespace

TEST_CASE("every schedule of transformers' names is step by step what transformers' own sets") {
  const json goldens = json::parse(std::ifstream(test::data_folder() + "/named_schedule_goldens.json"));
  std::map<std::string, int> seen;
  for (const json& golden : goldens["cases"]) {
    INFO(golden["type"] << " " << golden["params"]);
    ++seen[golden["type"]];
    const Schedule schedule = read(golden, goldens["lr"]);
    REQUIRE(golden["values"].size() == 26);
    for (size_t step = 0; step < golden["values"].size(); ++step) {
      CAPTURE(step);
      const double wanted = golden["values"][step];
      CHECK(schedule.rate(static_cast<int64_t>(step)) == Approx(wanted).epsilon(1e-14).margin(1e-19));
    }
  }
  CHECK(seen.size() == 9);
}

}  // namespace zrt::optimizer::named_schedule_test
