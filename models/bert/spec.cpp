// Both arrangements of BERT: the post-LN one is Hugging Face's "bert", the pre-LN one "megatron-bert".
#include "models/spec.h"

#include "models/bert/bert.h"
#include "models/hugging_face.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr Key bert_keys[] = {
    key("cls_token", t_int | t_null, "null", between(0, INT32_MAX), Effect::results,
        "Id of [CLS], which samples begin with; null: the third last of the vocabulary."),
    key("separator_token", t_int | t_null, "null", between(0, INT32_MAX), Effect::results,
        "Id of [SEP], which stands behind each run of text of a sample; null: the last but one of the vocabulary."),
    key("mask_token", t_int | t_null, "null", between(0, INT32_MAX), Effect::results,
        "Id of [MASK], which hides tokens; null: the last of the vocabulary."),
    key("mask_rate", t_real, "0.15", between(1e-4, 0.9), Effect::results,
        "The share of a sample's tokens that the network is to name: of ten, eight are hidden, one is another token, "
        "and "
        "one stays."),
    key("whole_words", t_bool, "false", Effect::results,
        "Whether the tokens of a word are chosen together; words of bytes are runs between white space."),
    key("sentence_order", t_bool, "false", Effect::results,
        "Whether samples are two runs of text, in order or swapped, and the network is to tell which, too."),
};

struct SpecialToken {
  const char* key;
  int32_t Masking::*field;
  int64_t from_end;  // of the vocabulary, where the key is left out
  const char* theirs;
  int64_t published;  // in the vocabularies of the published models
};
constexpr SpecialToken special_tokens[] = {
    {"cls_token", &Masking::cls, 3, "cls_token_id", 101},
    {"separator_token", &Masking::separator, 2, "sep_token_id", 102},
    {"mask_token", &Masking::mask, 1, "mask_token_id", 103},
};

void read_special_tokens(Values& values, const ModelSizes& sizes, Masking& masking) {
  if (sizes.vocab <= static_cast<int64_t>(std::size(special_tokens))) {
    values.check([&] {
      refuse(values.at("model.vocab"), "leaves no id for text beside [CLS], [SEP] and [MASK]. Try 4 or more.");
    });
    return;
  }
  for (const SpecialToken& token : special_tokens) {
    const std::string path = std::string("model.") + token.key;
    if (values.is_null(path)) values.infer(path, std::max<int64_t>(0, sizes.vocab - token.from_end));
    const int64_t id = values.integer(path);
    values.check([&] {
      const std::string last = std::to_string(sizes.vocab - 1);
      if (id >= sizes.vocab) {
        refuse(values.at(path),
               "is outside the vocabulary 0 to " + last + " (model.vocab). Try an id that no text has.");
      }
      for (const SpecialToken& other : special_tokens) {
        if (&other == &token) break;
        if (masking.*other.field != id) continue;
        refuse(values.at(path), std::string("is model.") + other.key +
                                    " too, but each needs an id of its own. Leave both out, or set another one.");
      }
    });
    masking.*token.field = static_cast<int32_t>(id);
  }
}

template <bool pre_norm>
MakeModel read_bert(Values& values, const ModelSizes& sizes) {
  refuse_uneven_heads(values, sizes);
  refuse_uneven_tensor(values, sizes, {{"model.heads", sizes.heads}});
  BertConfig config{.layers = sizes.layers,
                    .hidden = sizes.hidden,
                    .heads = sizes.heads,
                    .sequence = sizes.sequence,
                    .vocab = sizes.vocab,
                    .dropout = static_cast<float>(sizes.dropout),
                    .tied = sizes.tied,
                    .pre_norm = pre_norm,
                    .degrees = sizes.degrees,
                    .sparse = sizes.sparse,
                    .adapters = sizes.adapters};
  read_special_tokens(values, sizes, config.masking);
  config.masking.rate = values.real("model.mask_rate");
  config.masking.whole_words = values.flag("model.whole_words");
  config.masking.sentence_order = values.flag("model.sentence_order");
  values.check([&] {
    const bool order = config.masking.sentence_order;
    if (config.masking.text(sizes.sequence) >= (order ? 2 : 1)) return;
    refuse(values.at("model.sequence"), std::string("leaves no text between [CLS] and [SEP]. Try ") +
                                            (order ? "5" : "3") + " or more; 512 is usual.");
  });
  return [config] { return make_bert(config); };
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t sequence, int64_t vocab) {
  return {name, {{"layers", layers}, {"hidden", hidden}, {"heads", heads}, {"sequence", sequence}, {"vocab", vocab}}};
}
// Adds the special tokens of vocabularies as published, uncased.
Preset published(Preset preset) {
  for (const SpecialToken& token : special_tokens) preset.keys[token.key] = token.published;
  return preset;
}

constexpr SizeKey bert_hf_sizes[] = {{"layers", "num_hidden_layers", 12},
                                     {"hidden", "hidden_size", 768},
                                     {"heads", "num_attention_heads", 12},
                                     {"sequence", "max_position_embeddings", 512},
                                     {"vocab", "vocab_size", 30522}};
constexpr SizeKey megatron_bert_hf_sizes[] = {{"layers", "num_hidden_layers", 24},
                                              {"hidden", "hidden_size", 1024},
                                              {"heads", "num_attention_heads", 16},
                                              {"sequence", "max_position_embeddings", 512},
                                              {"vocab", "vocab_size", 29056}};
constexpr ConfigKey bert_hf_keys[] = {
    {"attention_probs_dropout_prob"},
    {"cls_token_id"},
    {"directionality"},
    {"hidden_act", R"(["gelu", "gelu_python"])"},  // two names of one function
    {"hidden_dropout_prob"},
    {"intermediate_size"},
    {"layer_norm_eps", "[1e-12]"},
    {"mask_token_id"},
    {"pooler_fc_size"},
    {"pooler_num_attention_heads"},
    {"pooler_num_fc_layers"},
    {"pooler_size_per_head"},
    {"pooler_type"},
    {"position_embedding_type", R"(["absolute", null])"},
    {"type_vocab_size", "[2]"},
};
// The bias of an untied output has a copy that transformers 5 does not read and 4 saves in its place.
constexpr SecondName bert_second_names[] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", true},
    {"cls.predictions.decoder.bias", "cls.predictions.bias", true},
    {"cls.predictions.bias", "cls.predictions.decoder.bias", false},
};

bool has_order(const OrderedJson& model) {
  return model.value("sentence_order", false);
}

void write_bert(const OrderedJson& model, OrderedJson& config) {
  config["intermediate_size"] = 4 * model.at("hidden").get<int64_t>();
  config["hidden_act"] = "gelu";
  config["layer_norm_eps"] = 1e-12;
  config["type_vocab_size"] = 2;
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) {
    config[key] = model.value("dropout", 0.0);
  }
  for (const SpecialToken& token : special_tokens) config[token.theirs] = model.at(token.key);
  config["pad_token_id"] = nullptr;
  // "BertForMaskedLM" and "BertForPreTraining", which tells the order, too.
  std::string architecture = config.at("architectures").at(0);
  if (has_order(model)) architecture.replace(architecture.find("MaskedLM"), std::string::npos, "PreTraining");
  config["architectures"][0] = architecture;
}

template <int64_t intermediate>  // transformers' default
void parse_bert(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  const int64_t hidden = model.at("hidden"),
                between = positive_integer(config, "intermediate_size", intermediate, name);
  if (between != 4 * hidden) {
    refuse_config(name, "'intermediate_size' is " + std::to_string(between) + " and 'hidden_size' " +
                            std::to_string(hidden) + "; zrt's model has four times as many only");
  }
  const auto architectures = config.find("architectures");
  for (const OrderedJson& each : architectures == config.end() ? OrderedJson::array() : *architectures) {
    if (each.is_string() && each.get<std::string>().ends_with("ForPreTraining")) model["sentence_order"] = true;
  }
  // Published ones do not say the ids of their tokens, which are the same in all of them.
  const bool as_published = model.at("vocab") > special_tokens[2].published;
  for (const SpecialToken& token : special_tokens) {
    const auto found = config.find(token.theirs);
    if (found == config.end() || found->is_null()) {
      if (as_published) model[token.key] = token.published;
      continue;
    }
    if (!found->is_number_integer() || *found < 0 || *found >= model.at("vocab").get<int64_t>()) {
      refuse_config(name,
                    std::string("'") + token.theirs + "' is " + found->dump() + "; legal are ids of the vocabulary");
    }
    model[token.key] = *found;
  }
}

// In the first published files norms have a gamma and a beta.
std::optional<std::string> bert_parameter_name(const OrderedJson& model, const std::string& tensor) {
  for (const char* order : {"bert.pooler.", "cls.seq_relationship."}) {
    if (tensor.starts_with(order) && !has_order(model)) return std::nullopt;
  }
  if (tensor.ends_with(".position_ids")) return std::nullopt;
  std::string name = tensor;
  for (const auto& [theirs, ours] :
       {std::pair<std::string_view, std::string_view>{".gamma", ".weight"}, {".beta", ".bias"}}) {
    if (name.ends_with(theirs)) name.replace(name.size() - theirs.size(), theirs.size(), ours);
  }
  return name;
}

template <int64_t intermediate>
HuggingFaceForm bert_form(std::vector<const char*> architectures, std::span<const SizeKey> sizes) {
  return {.architectures = std::move(architectures),
          .sizes = sizes,
          .keys = bert_hf_keys,
          .second_names = bert_second_names,
          .write = write_bert,
          .read = parse_bert<intermediate>,
          .tensor_name = [](const std::string& parameter) { return parameter; },
          .parameter_name = bert_parameter_name};
}

const Section bert_sections[] = {{"model", "", Parser::own, nullptr, bert_keys}};

}  // namespace

const ModelSpec& bert_spec() {
  static const ModelSpec spec{
      .type = "bert",
      .sections = bert_sections,
      .tied = true,
      .causal = false,
      .presets = {sized("bert-tiny", 2, 64, 2, 32, 260), sized("bert-10m", 6, 384, 6, 256, 260),
                  published(sized("bert-base", 12, 768, 12, 512, 30522)),
                  published(sized("bert-large", 24, 1024, 16, 512, 30522))},
      .read = read_bert<false>,
      .hugging_face = bert_form<3072>({"BertForMaskedLM", "BertForPreTraining"}, bert_hf_sizes)};
  return spec;
}

const ModelSpec& megatron_bert_spec() {
  static const ModelSpec spec{
      .type = "megatron-bert",
      .sections = bert_sections,
      .tied = true,
      .causal = false,
      .presets = {sized("megatron-bert-tiny", 2, 64, 2, 32, 260), sized("megatron-bert-10m", 6, 384, 6, 256, 260),
                  published(sized("megatron-bert-1.3b", 24, 2048, 32, 512, 30592))},  // padded to a multiple of 128
      .read = read_bert<true>,
      .hugging_face =
          bert_form<4096>({"MegatronBertForMaskedLM", "MegatronBertForPreTraining"}, megatron_bert_hf_sizes)};
  return spec;
}

}  // namespace zrt::models
