#include "runtime/train/telemetry/expert_loads.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/program/expert_loads.h"

namespace zrt::runtime {
namespace {

using LoadJson = nlohmann::ordered_json;
using Loads = std::map<int64_t, std::vector<models::ExpertLoad>>;  // by layer

void add_loads(std::vector<models::ExpertLoad>& sum, const models::ExpertLoad* loads, size_t experts) {
  sum.resize(std::max(sum.size(), experts));
  for (size_t e = 0; e < experts; ++e) sum[e].picked += loads[e].picked, sum[e].dropped += loads[e].dropped;
}

// Adds what one rank counted.
void add_rank(const std::vector<std::byte>& bytes, const models::Model& model, Loads& sum) {
  std::vector<models::ExpertLoad> loads(bytes.size() / sizeof(models::ExpertLoad));
  std::memcpy(loads.data(), bytes.data(), bytes.size());
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    const auto experts = static_cast<size_t>(model.blocks[b]->experts());
    if (experts == 0) continue;
    const auto layer = static_cast<int64_t>(model.whole_number(b)) - 1;  // behind the embedding
    add_loads(sum[layer], &loads[experts_before(model, b)], experts);
  }
}

LoadJson loads_json(const Loads& loads) {
  LoadJson json{{"layers", LoadJson::array()}, {"picked", LoadJson::array()}, {"dropped", LoadJson::array()}};
  for (const auto& [layer, experts] : loads) {
    LoadJson picked = LoadJson::array(), dropped = LoadJson::array();
    for (const models::ExpertLoad& load : experts) picked.push_back(load.picked), dropped.push_back(load.dropped);
    json["layers"].push_back(layer);
    json["picked"].push_back(std::move(picked));
    json["dropped"].push_back(std::move(dropped));
  }
  return json;
}

void add_process(const LoadJson& json, Loads& sum) {
  for (size_t i = 0; i < json.at("layers").size(); ++i) {
    const LoadJson &picked = json.at("picked").at(i), &dropped = json.at("dropped").at(i);
    std::vector<models::ExpertLoad> loads(picked.size());
    for (size_t e = 0; e < loads.size(); ++e) {
      loads[e] = {picked.at(e).get<uint64_t>(), dropped.at(e).get<uint64_t>()};
    }
    add_loads(sum[json.at("layers").at(i).get<int64_t>()], loads.data(), loads.size());
  }
}

}  // namespace

bool has_experts(const Session& session) {
  return std::any_of(session.stages().begin(), session.stages().end(),
                     [](const Compiled& stage) { return experts_before(*stage.layout.model) > 0; });
}

std::vector<LayerLoads> read_expert_loads(Session& session) {
  std::vector<std::vector<std::byte>> counted(static_cast<size_t>(session.local_count()));
  session.on_all_ranks([&](size_t rank) {
    const int local = static_cast<int>(rank);
    const Layout& layout = session.stage(local).layout;
    if (layout.mesh.place(Axis::tensor, session.first_local() + local) != 0) return;
    if (experts_before(*layout.model) > 0) counted[rank] = session.executor(local).read(expert_loads);
  });
  Loads own, all;
  for (size_t rank = 0; rank < counted.size(); ++rank) {
    if (!counted[rank].empty()) add_rank(counted[rank], *session.stage(static_cast<int>(rank)).layout.model, own);
  }
  for (const std::string& text : session.transport().exchange(loads_json(own).dump(), session.timeout())) {
    add_process(LoadJson::parse(text), all);
  }
  std::vector<LayerLoads> result;
  for (auto& [layer, experts] : all) result.push_back({layer, std::move(experts)});
  return result;
}

std::string to_json_line(int64_t step, const std::vector<LayerLoads>& loads) {
  Loads by_layer;
  for (const LayerLoads& each : loads) by_layer[each.layer] = each.experts;
  LoadJson json{{"step", step}};
  json.update(loads_json(by_layer));
  return json.dump();
}

}  // namespace zrt::runtime
