#include "runtime/train/data_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "runtime/data/blended_dataset.h"

namespace zrt::runtime {
namespace {

using checkpoint::Json;
using data::DatasetFacts;

Json dataset_json(const DatasetFacts& facts) {
  Json json = {{"prefix", facts.prefix}, {"documents", facts.documents},     {"tokens", facts.tokens},
               {"xxh3", facts.xxh3},     {"tokens_xxh3", facts.tokens_xxh3}, {"tokenizer", facts.tokenizer}};
  if (facts.templated) json["template"] = true;
  if (!facts.counts_xxh3.empty()) json["counts_xxh3"] = facts.counts_xxh3;
  return json;
}

std::string text_of(const Json& dataset, const char* key) {
  return dataset.value(key, std::string());  // old checkpoints lack some
}

std::string prefix_of(const Json& dataset) {
  return text_of(dataset, "prefix");
}

std::string facts_text(const Json& dataset) {
  return fmt::format("{} documents, {} tokens, index {}", dataset.at("documents").dump(), dataset.at("tokens").dump(),
                     text_of(dataset, "xxh3"));
}

bool same_index(const Json& a, const Json& b) {
  return a.at("documents") == b.at("documents") && a.at("tokens") == b.at("tokens") && a.at("xxh3") == b.at("xxh3");
}

// The counterpart in `was` of each dataset of `now`, each of `was` at most once; null where it has none.
using Counterparts = std::vector<const Json*>;

// The counterpart has the same prefix, else the same index, else the same place in the list.
Counterparts counterparts(const Json& now, const Json& was) {
  Counterparts found(now.size(), nullptr);
  std::vector<bool> taken(was.size(), false);
  const auto pair = [&](const auto& fits) {
    for (size_t i = 0; i < now.size(); ++i) {
      for (size_t k = 0; k < was.size() && found[i] == nullptr; ++k) {
        if (!taken[k] && fits(i, k)) found[i] = &was[k], taken[k] = true;
      }
    }
  };
  pair([&](size_t i, size_t k) { return now[i].at("prefix") == was[k].at("prefix"); });
  pair([&](size_t i, size_t k) { return now[i].at("xxh3") == was[k].at("xxh3"); });
  pair([&](size_t i, size_t k) { return i == k; });
  return found;
}

int64_t read_of(const Json* dataset, int64_t samples) {
  return dataset == nullptr ? 0 : std::llround(dataset->at("share").get<double>() * static_cast<double>(samples));
}

// Says how the dataset's samples or their text differ from those of its counterpart.
std::string described(const Json& now, const Json& was, int64_t read) {
  if (!same_index(now, was)) {
    return fmt::format(
        "has {}, and the checkpoint's {} has {}: its samples are cut and shuffled anew. Any of the about {} that were "
        "read may come again, and as many of the epoch at hand may be lost",
        facts_text(now), prefix_of(was), facts_text(was), read);
  }
  const std::string tokens = text_of(now, "tokens_xxh3"), old = text_of(was, "tokens_xxh3");
  if (!old.empty() && tokens != old) {
    return fmt::format(
        "has the index of the checkpoint's {}, but its tokens are others ({} and {}): from here on other text is read "
        "at the same places",
        prefix_of(was), tokens, old);
  }
  if (text_of(now, "counts_xxh3") != text_of(was, "counts_xxh3")) {
    return fmt::format("has the tokens of the checkpoint's {}, but others of them count: no sample repeats or is lost",
                       prefix_of(was));
  }
  if (prefix_of(now) == prefix_of(was)) return "";
  return fmt::format("was {} in the checkpoint, with the same index{}no sample repeats or is lost", prefix_of(was),
                     old.empty() ? ": where the tokens are the same, " : " and tokens: ");
}

// Sentences on a dataset that has (`was`) a counterpart in the checkpoint, or none.
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
  if (const std::string text = described(now, *was, read); !text.empty()) changes.push_back(name + " " + text);
  if (now.at("share") == was->at("share")) return;
  changes.push_back(
      fmt::format("{} gives {:.6g} of the samples and gave {:.6g}: {}", name, now.at("share").get<double>(),
                  was->at("share").get<double>(),
                  taken < read   ? fmt::format("about {} of the {} that were read repeat", read - taken, read)
                  : taken > read ? fmt::format("about {} behind the {} that were read are lost", taken - read, read)
                                 : "from here on it is read at another rate"));
}

void describe_train(const Json& now, const Json& was, int64_t samples, std::vector<std::string>& changes) {
  const Counterparts of = counterparts(now, was);
  Counterparts in_order = of;
  in_order.erase(std::remove(in_order.begin(), in_order.end(), nullptr), in_order.end());
  // Datasets take turns, and where several would be next the first of the list is.
  if (samples > 0 && !std::is_sorted(in_order.begin(), in_order.end())) {
    changes.push_back(
        "data.train has its datasets in another order than the checkpoint: they take turns in that order, so a sample "
        "of each may repeat or be lost");
  }
  for (size_t i = 0; i < now.size(); ++i) describe(now[i], of[i], samples, changes);
  for (const Json& gone : was) {
    if (std::find(of.begin(), of.end(), &gone) != of.end()) continue;
    changes.push_back(
        fmt::format("data.train {} of the checkpoint is gone: about {} samples of it were read, and none follows",
                    prefix_of(gone), read_of(&gone, samples)));
  }
}

// The tokenizer that made the data; "" where no dataset says.
std::string tokenizer_of(const Json& data) {
  for (const char* key : {"train", "validation"}) {
    for (const Json& dataset : data.value(key, Json::array())) {
      if (const std::string text = text_of(dataset, "tokenizer"); !text.empty()) return text;
    }
  }
  return "";
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

Json data_json(const Config& config, const models::Model& model, const data::SampleSource& train,
               const std::optional<EvalData>& validation) {
  Json json{{"sequence", model.sequence}, {"train_batch_size", config.batch.train}};
  if (const std::string& split = config.data.train.front().split; !split.empty()) json["split"] = split;
  if (config.data.documents != data::DocumentUse::joined) json["documents"] = data::name_of(config.data.documents);
  if (model.masking) json["mask_rate"] = model.masking->rate, json["whole_words"] = model.masking->whole_words;
  std::vector<double> weights;
  for (const DataSource& source : config.data.train) weights.push_back(source.weight);
  const std::vector<double> shares = data::normalised_weights(weights);
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

std::string trained_tokenizer(const Json& made_by) {
  const Json data = made_by.is_object() ? made_by.value("data", Json()) : Json();
  if (!data.is_object()) return "";
  for (const Json& dataset : data.value("train", Json::array())) {
    if (text_of(dataset, "tokenizer").empty()) return "";
  }
  return tokenizer_of(data);
}

std::optional<bool> trained_template(const Json& made_by) {
  const Json data = made_by.is_object() ? made_by.value("data", Json()) : Json();
  const Json train = data.is_object() ? data.value("train", Json()) : Json();
  if (!train.is_array() || train.empty()) return std::nullopt;
  return std::all_of(train.begin(), train.end(), [](const Json& set) { return set.value("template", false); });
}

std::string other_tokenizer(const Json& before, const Json& now) {
  const std::string was = before.is_object() ? tokenizer_of(before) : "", is = tokenizer_of(now);
  if (was.empty() || is.empty() || was == is) return "";
  return fmt::format(
      "the data was made by tokenizer {} and the checkpoint's by {}: the same ids mean other text, so what the weights "
      "have learned does not hold for it. Build the data with the checkpoint's tokenizer, or train from the start",
      is, was);
}

std::vector<std::string> data_changes(const Json& before, const Json& now, int64_t samples, bool counted) {
  std::vector<std::string> changes;
  if (!before.is_object()) return changes;
  if (const std::string other = other_tokenizer(before, now); !other.empty()) changes.push_back(other);
  describe_train(now.at("train"), before.at("train"), samples, changes);
  if (now.at("train_batch_size") != before.at("train_batch_size")) {
    changes.push_back(
        fmt::format("train_batch_size is {} and was {}: no sample repeats or is lost{}",
                    now.at("train_batch_size").dump(), before.at("train_batch_size").dump(),
                    counted ? ""
                            : ", but a step takes another number of them, so that run.steps and the scheduler end "
                              "after other data"));
  }
  if (const std::string is = text_of(now, "split"), was = text_of(before, "split"); is != was) {
    const auto named = [](const std::string& split) {
      return split.empty() ? std::string("not set") : "'" + split + "'";
    };
    changes.push_back(fmt::format(
        "data.split is {} and was {}: samples are cut and shuffled anew, and documents that were trained on "
        "may be held out now, whose loss then says too little",
        named(is), named(was)));
  }
  if (now.value("documents", "joined") != before.value("documents", "joined")) {
    changes.push_back(fmt::format(
        "data.documents is {} and was {}: samples are cut and shuffled anew, and any that were read may come "
        "again",
        now.value("documents", "joined"), before.value("documents", "joined")));
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
