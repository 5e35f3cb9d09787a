#include "runtime/train/data_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "models/data/blended_dataset.h"

namespace zrt::runtime {
namespace {

using checkpoint::Json;
using models::data::DatasetFacts;

Json dataset_json(const DatasetFacts& facts) {
  return {{"prefix", facts.prefix}, {"documents", facts.documents}, {"tokens", facts.tokens}, {"xxh3", facts.xxh3}};
}

std::string facts_text(const Json& dataset) {
  return fmt::format("{} documents, {} tokens, index {}", dataset.at("documents").dump(), dataset.at("tokens").dump(),
                     dataset.at("xxh3").get<std::string>());
}

bool same_facts(const Json& a, const Json& b) {
  return a.at("documents") == b.at("documents") && a.at("tokens") == b.at("tokens") && a.at("xxh3") == b.at("xxh3");
}

std::string prefix_of(const Json& dataset) {
  return dataset.at("prefix").get<std::string>();
}

// The dataset of `list` that has the key's value of `wanted`; null where none has.
const Json* with_same(const Json& list, const Json& wanted, const char* key) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Json& one) { return one.at(key) == wanted.at(key); });
  return found == list.end() ? nullptr : &*found;
}

// Finds the counterpart in `other` of `dataset`, number `i` of its list: the one with the same prefix, else with the
// same index, else at the same place unless that one has a counterpart of its own.
const Json* counterpart(const Json& dataset, size_t i, const Json& list, const Json& other) {
  if (const Json* same = with_same(other, dataset, "prefix")) return same;
  const Json* moved = with_same(other, dataset, "xxh3");
  if (moved != nullptr && with_same(list, *moved, "prefix") == nullptr) return moved;
  if (i >= other.size() || with_same(list, other[i], "prefix") || with_same(list, other[i], "xxh3")) return nullptr;
  return &other[i];
}

int64_t read_of(const Json* dataset, int64_t samples) {
  return dataset == nullptr ? 0 : std::llround(dataset->at("share").get<double>() * static_cast<double>(samples));
}

// Sentences of a dataset that has (`was`) a counterpart in the checkpoint, or none.
void describe(const Json& now, const Json* was, int64_t samples, std::vector<std::string>& changes) {
  const std::string name = fmt::format("data.train {}", prefix_of(now));
  const int64_t read = read_of(was, samples), taken = read_of(&now, samples);
  if (was == nullptr) {
    changes.push_back(
        fmt::format("{} is not in the checkpoint's data: the blend goes on as if about {} samples of it had "
                    "been read, which are lost",
                    name, taken));
    return;
  }
  if (!same_facts(now, *was)) {
    changes.push_back(
        fmt::format("{} has {}, and the checkpoint's {} has {}: its samples are cut and shuffled anew. Any of the "
                    "about {} that were "
                    "read may come again, and as many of the epoch at hand may be lost",
                    name, facts_text(now), prefix_of(*was), facts_text(*was), read));
  } else if (prefix_of(now) != prefix_of(*was)) {
    changes.push_back(
        fmt::format("{} was {} in the checkpoint, with the same index: where the tokens are the same, no "
                    "sample repeats or is lost",
                    name, prefix_of(*was)));
  }
  if (now.at("share") == was->at("share")) return;
  changes.push_back(
      fmt::format("{} gives {:.6g} of the samples and gave {:.6g}: {}", name, now.at("share").get<double>(),
                  was->at("share").get<double>(),
                  taken < read   ? fmt::format("about {} of the {} that were read repeat", read - taken, read)
                  : taken > read ? fmt::format("about {} behind the {} that were read are lost", taken - read, read)
                                 : "from here on it is read at another rate"));
}

void describe_train(const Json& now, const Json& was, int64_t samples, std::vector<std::string>& changes) {
  for (size_t i = 0; i < now.size(); ++i) describe(now[i], counterpart(now[i], i, now, was), samples, changes);
  for (size_t i = 0; i < was.size(); ++i) {
    if (counterpart(was[i], i, was, now) != nullptr) continue;
    changes.push_back(
        fmt::format("data.train {} of the checkpoint is gone: about {} samples of it were read, and none follows",
                    prefix_of(was[i]), read_of(&was[i], samples)));
  }
}

// Paths of all that differs, with both values.
void differences(const Json& a, const Json& b, const std::string& path, std::vector<std::string>& found) {
  if (a == b) return;
  if (a.type() != b.type() || !a.is_structured() || (a.is_array() && a.size() != b.size())) {
    found.push_back(fmt::format("{}: {} and {}", path, a.dump(), b.dump()));
    return;
  }
  for (const auto& [key, value] : a.items()) {
    const std::string below = a.is_array() ? fmt::format("{}[{}]", path, key) : path.empty() ? key : path + "." + key;
    const bool absent = b.is_object() && !b.contains(key);
    differences(value, absent ? Json() : a.is_array() ? b[std::stoul(key)] : b[key], below, found);
  }
}

}  // namespace

Json data_json(const Config& config, const models::Model& model, const models::data::SampleSource& train,
               const std::optional<EvalData>& validation) {
  Json json{{"sequence", model.sequence}, {"train_batch_size", config.batch.train}};
  if (model.masking) json["mask_rate"] = model.masking->rate, json["whole_words"] = model.masking->whole_words;
  std::vector<double> weights;
  for (const DataSource& source : config.data.train) weights.push_back(source.weight);
  const std::vector<double> shares = models::data::normalised_weights(weights);
  json["train"] = Json::array();
  for (const DatasetFacts& facts : train.datasets()) {
    Json dataset = dataset_json(facts);
    dataset["share"] = shares.at(json["train"].size());
    json["train"].push_back(dataset);
  }
  json["validation"] = validation_json(validation.value_or(EvalData()));
  return json;
}

Json validation_json(const EvalData& data) {
  Json json = Json::array();
  for (const EvalSet& set : data) {
    for (const DatasetFacts& facts : set.source->datasets()) json.push_back(dataset_json(facts));
  }
  return json;
}

void require_same_data(comm::Transport& transport, const Json& data, std::chrono::milliseconds timeout) {
  const std::vector<std::string> all = transport.exchange(data.dump(), timeout);
  for (size_t p = 1; p < all.size(); ++p) {
    std::vector<std::string> found;
    differences(Json::parse(all[0]), Json::parse(all[p]), "", found);
    if (found.empty()) continue;
    throw core::ConfigError(
        fmt::format("the data differs between process 0 and process {}: {}. Give all machines the same files at the "
                    "paths of data.train and data.validation",
                    p, fmt::join(found, "; ")));
  }
}

std::vector<std::string> data_changes(const Json& before, const Json& now, int64_t samples) {
  std::vector<std::string> changes;
  if (!before.is_object()) return changes;
  const Json &was = before.at("train"), &is = now.at("train");
  if (was != is) describe_train(is, was, samples, changes);
  if (now.at("train_batch_size") != before.at("train_batch_size")) {
    changes.push_back(
        fmt::format("train_batch_size is {} and was {}: no sample repeats or is lost, but a step takes another number "
                    "of them, so that "
                    "run.steps and the scheduler end after other data",
                    now.at("train_batch_size").dump(), before.at("train_batch_size").dump()));
  }
  for (const char* key : {"mask_rate", "whole_words"}) {
    const Json value = now.value(key, Json()), old = before.value(key, Json());
    if (value == old) continue;
    changes.push_back(
        fmt::format("model.{} is {} and was {}: from here on other tokens are hidden; no sample repeats or "
                    "is lost",
                    key, value.dump(), old.dump()));
  }
  std::vector<std::string> held_out;
  differences(before.at("validation"), now.at("validation"), "data.validation", held_out);
  if (!held_out.empty()) {
    changes.push_back(
        fmt::format("the held-out data is other than the checkpoint's ({}): losses before and after are not "
                    "of the same text",
                    fmt::join(held_out, "; ")));
  }
  return changes;
}

}  // namespace zrt::runtime
