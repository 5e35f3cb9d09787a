// BERT as a configuration: presets of the published sizes, what is inferred, what is refused.
#include <nlohmann/json.hpp>

#include "models/hugging_face.h"
#include "tests/runtime/config/config_helpers.h"

namespace zrt::config_bert_test {

using namespace zrt::runtime;

namespace {

Config preset(const std::string& name, std::vector<std::string> sets = {}) {
  sets.push_back("model.preset=" + name);
  return parse_config(R"({"train_batch_size": 1})", "c", sets, 1);
}

std::string error(const std::string& model, const std::string& more = "") {
  return error_of(
      [&] { parse_config(R"({"train_batch_size": 1, )" + more + R"("model": )" + model + "}", "c", {}, 2); });
}

}  // namespace

TEST_CASE("presets of BERT have the parameters of the published models") {
  // A pooler has hidden² + hidden of the published 109,482,240 and 335,141,888; the head's own come on top.
  const auto without_pooler = [](int64_t published, int64_t hidden, int64_t vocab) {
    return published - hidden * (hidden + 1) + hidden * (hidden + 1) + 2 * hidden + vocab;
  };
  const zrt::models::Model base = preset("bert-base").model.make(), large = preset("bert-large").model.make(),
                           megatron = preset("megatron-bert-1.3b").model.make();
  CHECK(base.parameters() == without_pooler(109482240, 768, 30522));
  CHECK(large.parameters() == without_pooler(335141888, 1024, 30522));
  CHECK(megatron.parameters() == 1276538752);
  CHECK((base.type == "bert" && megatron.type == "megatron-bert"));
  CHECK(base.blocks[1]->params().front().name == "bert.embeddings.LayerNorm.weight");
  CHECK(base.blocks.back()->params().front().name == "bert.encoder.layer.11.output.LayerNorm.weight");
  CHECK(megatron.blocks[1]->params().front().name == "bert.encoder.layer.0.attention.ln.weight");
  CHECK(megatron.blocks.back()->params().front().name == "bert.encoder.ln.weight");
  // Attention to both sides is counted whole, and position embeddings are no part of N.
  const double weights = static_cast<double>(base.parameters() - 512 * 768);
  CHECK(base.flops_per_token() == 6 * weights + 12.0 * 12 * 768 * 512);
  CHECK((base.masking->cls == 101 && base.masking->separator == 102 && base.masking->mask == 103));
  CHECK((base.targets(512) == 77 && base.targets(5) == 1));
}

TEST_CASE("ids of [CLS], [SEP] and [MASK] are the last of the vocabulary where they are left out") {
  const Config config = preset("bert-tiny", {"model.vocab=300"});
  CHECK(in_force(config, "model.cls_token") == 297);
  CHECK(in_force(config, "model.separator_token") == 298);
  CHECK(in_force(config, "model.mask_token") == 299);
  CHECK(preset("bert-tiny", {"model.mask_token=7"}).model.make().masking->mask == 7);
}

TEST_CASE("files of BERT are read by all the names that their tensors have had") {
  using zrt::models::parameter_name;
  zrt::models::OrderedJson model{{"type", "bert"}, {"tied", true}};
  CHECK(parameter_name(model, "bert.embeddings.LayerNorm.gamma") == "bert.embeddings.LayerNorm.weight");
  CHECK(parameter_name(model, "cls.predictions.transform.LayerNorm.beta") ==
        "cls.predictions.transform.LayerNorm.bias");
  for (const char* name : {"bert.pooler.dense.bias", "cls.seq_relationship.weight", "bert.embeddings.position_ids"}) {
    CHECK(!parameter_name(model, name));
  }
  const auto second = [&] {
    std::map<std::string, std::string> names;
    for (const auto& each : zrt::models::second_names(model)) names[each.name] = each.parameter;
    return names;
  };
  CHECK(second() ==
        std::map<std::string, std::string>{{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                                           {"cls.predictions.decoder.bias", "cls.predictions.bias"}});
  model["sentence_order"] = true, model["tied"] = false;
  CHECK(parameter_name(model, "bert.pooler.dense.bias") == "bert.pooler.dense.bias");
  CHECK(second() == std::map<std::string, std::string>{{"cls.predictions.bias", "cls.predictions.decoder.bias"}});
}

TEST_CASE("what BERT cannot be is refused with the key and what is legal") {
  const auto tiny = [](const std::string& more) { return R"({"preset": "bert-tiny", )" + more + "}"; };
  CHECK(has(error(tiny(R"("mask_token": 260)")), "model.mask_token = 260"));
  CHECK(has(error(tiny(R"("mask_token": 260)")), "outside the vocabulary 0 to 259"));
  CHECK(has(error(tiny(R"("mask_token": 257)")), "is model.cls_token too"));
  CHECK(has(error(tiny(R"("vocab": 2)")), "leaves no id for text"));
  CHECK(error(tiny(R"("vocab": 2)")).find("separator_token") == std::string::npos);
  CHECK(has(error(tiny(R"("mask_rate": 0.95)")), "model.mask_rate = 0.95"));
  CHECK(has(error(tiny(R"("sequence": 2)")), "leaves no text between"));
  CHECK(has(error(R"({"preset": "gpt2-tiny", "whole_words": true})"), "belongs to model.type = \"bert\""));
  CHECK(has(error(tiny(R"("heads": 1)"), R"("parallel": {"tensor": 2}, )"), "model.heads"));
}

}  // namespace zrt::config_bert_test
