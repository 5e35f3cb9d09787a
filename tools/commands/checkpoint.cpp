#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/folder_lock.h"
#include "core/ledger.h"
#include "core/printable.h"
#include "runtime/config/config.h"
#include "runtime/plan/setup.h"
#include "runtime/train/checkpoint/adapters.h"
#include "runtime/train/checkpoint/copy.h"
#include "runtime/train/checkpoint/exchange.h"
#include "runtime/train/checkpoint/store.h"
#include "runtime/train/resume.h"
#include "runtime/train/run_manifest.h"
#include "tools/commands/arguments.h"
#include "tools/commands/checkpoint_delink.h"

namespace zrt::tools {
namespace {

namespace fs = std::filesystem;
using namespace runtime::checkpoint;

constexpr const char* usage = "zrt checkpoint list|inspect|verify|export|import|delink …";

uint64_t bytes_of(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const auto& [name, file] : manifest.files) bytes += file.bytes;
  return bytes;
}

// Names of folders and files, and what files hold, may be anything.
void print(const std::string& line) {
  std::cout << core::printable(line) << "\n";
}
void print_json(const Json& json) {
  std::cout << json.dump(1, ' ', true, Json::error_handler_t::replace) << "\n";
}

fs::path store_of(const fs::path& run) {
  return fs::is_directory(run / "checkpoints") ? run / "checkpoints" : run;
}

// Shows `look` every checkpoint, newest first. Where it says that one is gone, because its run removed it meanwhile,
// the newer ones that the run has saved for it follow.
void visit(const fs::path& store, const std::function<bool(const Stored&)>& look) {
  std::set<fs::path> seen;
  for (bool gone = true; gone;) {
    gone = false;
    for (const Stored& stored : list_checkpoints(store)) {
      if (seen.insert(stored.folder).second && !look(stored)) gone = true;
    }
  }
}

int list(const Args& args) {
  po::options_description options("options");
  options.add_options()("json", "print as JSON");
  po::variables_map values;
  if (!parse(args, "zrt checkpoint list RUN", options, {"RUN"}, values)) return 0;
  const fs::path store = store_of(values["RUN"].as<std::string>());
  if (!fs::is_directory(store)) throw core::DataError(fmt::format("{}: is no folder", store.string()));
  Json rows = Json::array();
  visit(store, [&](const Stored& stored) {
    Json row{{"step", stored.step}, {"folder", stored.folder.string()}};
    try {
      const Manifest manifest = verify_checkpoint(stored.folder, false);
      row["bytes"] = bytes_of(manifest);
      row["files"] = manifest.files.size();
      row["made_by"] = manifest.made_by;
      row["whole"] = true;
    } catch (const core::DataError& error) {
      if (!fs::exists(stored.folder)) return false;
      row["whole"] = false;
      row["error"] = error.what();
    }
    rows.push_back(std::move(row));
    return true;
  });
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) { return a["step"] > b["step"]; });
  if (values.count("json")) {
    print_json(rows);
    return 0;
  }
  if (rows.empty()) throw core::DataError(fmt::format("{}: holds no checkpoints", store.string()));
  for (const Json& row : rows) {
    const std::string what = row["whole"].get<bool>()
                                 ? fmt::format("{:>12}  {} files", core::format_bytes(row["bytes"].get<uint64_t>()),
                                               row["files"].get<size_t>())
                                 : "broken: " + row["error"].get<std::string>();
    print(fmt::format("{:<40} {}", row["folder"].get<std::string>(), what));
  }
  return 0;
}

int inspect(const Args& args) {
  po::options_description options("options");
  options.add_options()("json", "print as JSON");
  po::variables_map values;
  if (!parse(args, "zrt checkpoint inspect RUN|CHECKPOINT", options, {"PATH"}, values)) return 0;
  const Reader reader = open_checkpoint(values["PATH"].as<std::string>());
  const Manifest& manifest = reader.manifest();
  Json tensors = Json::object();
  for (const TensorSet* set : {&reader.weights(), reader.states()}) {
    if (!set) continue;
    for (const std::string& name : set->names())
      append(tensors, name, {{"dtype", set->dtype(name)}, {"shape", set->shape(name)}});
  }
  if (values.count("json")) {
    Json json{{"folder", reader.folder().string()}, {"step", manifest.step},       {"samples", manifest.samples},
              {"optimizer", manifest.optimizer},    {"model", manifest.model},     {"control", manifest.control},
              {"made_by", manifest.made_by},        {"bytes", bytes_of(manifest)}, {"tensors", tensors}};
    print_json(json);
    return 0;
  }
  print(reader.folder().string());
  print(fmt::format("step {}, {} samples consumed, {} in {} files", manifest.step, manifest.samples,
                    core::format_bytes(bytes_of(manifest)), manifest.files.size()));
  print("model " + manifest.model.dump());
  print("optimizer " + (manifest.optimizer.empty() ? "none: weights alone" : manifest.optimizer));
  print("made by " + manifest.made_by.dump());
  for (const auto& [name, tensor] : tensors.items()) {
    print(fmt::format("{:<60} {} {}", name, tensor["dtype"].get<std::string>(), tensor["shape"].dump()));
  }
  return 0;
}

int verify(const Args& args) {
  po::options_description options("options");
  po::variables_map values;
  if (!parse(args, "zrt checkpoint verify RUN|CHECKPOINT", options, {"PATH"}, values)) return 0;
  const fs::path path = values["PATH"].as<std::string>();
  size_t broken = 0, read = 0;
  // Checks one checkpoint; returns whether it is there at all.
  const auto check = [&](const fs::path& folder) {
    try {
      const Reader reader(folder, true);
      reader.require_finite();
      print(fmt::format("{}: whole, {} in {} files", folder.string(), core::format_bytes(bytes_of(reader.manifest())),
                        reader.manifest().files.size()));
    } catch (const core::DataError& error) {
      if (!fs::exists(folder)) return false;
      print(fmt::format("{}: broken: {}", folder.string(), error.what()));
      ++broken;
    }
    ++read;
    return true;
  };
  if (fs::exists(path / manifest_name)) {
    check(path);
  } else {
    for (const fs::path& misnamed : misnamed_checkpoints(store_of(path))) check(misnamed);
    visit(store_of(path), [&](const Stored& stored) { return check(stored.folder); });
  }
  if (read == 0) throw core::DataError(fmt::format("{}: holds no checkpoints", path.string()));
  if (broken > 0) throw core::DataError(fmt::format("{} of {} checkpoints are broken", broken, read));
  return 0;
}

// Says why an export has no tokenizer, and what to do.
std::string no_tokenizer_text(const Manifest& manifest) {
  const Json data = manifest.made_by.is_object() ? manifest.made_by.value("data", Json()) : Json();
  const Json train = data.is_object() ? data.value("train", Json()) : Json();
  std::string made_by;
  if (train.is_array() && !train.empty() && train[0].is_object()) made_by = train[0].value("tokenizer", std::string());
  const std::string why = made_by.starts_with("'bytes'")
                              ? "the run reads bytes, for which there is no tokenizer file"
                              : "neither the folder that the run began with nor its data had one";
  return fmt::format(
      "the folder gets no tokenizer: {}. Programs that load tokenizers from it, such as AutoTokenizer, need one: put "
      "tokenizer.json, or what else belongs to the model, beside the weights",
      why);
}

int export_to(const Args& args) {
  po::options_description options("options");
  options.add_options()("out", po::value<std::string>(), "new folder for config.json, the weights and the tokenizer")(
      "dtype", po::value<std::string>()->default_value("fp32"), "of the weights: fp32, bf16 or fp16")(
      "adapters", "write the adapters alone, as a folder of PEFT; else they are merged into the weights")(
      "shard-bytes", po::value<uint64_t>()->default_value(ExportOptions().shard_bytes), "of one file, at most");
  po::variables_map values;
  if (!parse(args, "zrt checkpoint export RUN|CHECKPOINT --out DIR", options, {"PATH"}, values)) return 0;
  if (!values.count("out")) throw core::UsageError("--out is missing; it names the new folder");
  ExportOptions to;
  const std::string type = values["dtype"].as<std::string>();
  to.type = type == "bf16" ? core::DType::bf16 : type == "fp16" ? core::DType::f16 : core::DType::f32;
  if (type != core::dtype_name(to.type)) {
    throw core::UsageError(fmt::format("--dtype is '{}'; legal are fp32, bf16 and fp16", type));
  }
  to.shard_bytes = values["shard-bytes"].as<uint64_t>();
  if (to.shard_bytes < 1 || to.shard_bytes > (uint64_t{1} << 62)) {
    throw core::UsageError(fmt::format("--shard-bytes is {}; legal are 1 to 2^62", to.shard_bytes));
  }
  const Reader reader = open_checkpoint(values["PATH"].as<std::string>());
  const fs::path out = values["out"].as<std::string>();
  if (values.count("adapters")) {
    for (const char* option : {"dtype", "shard-bytes"}) {
      if (values[option].defaulted()) continue;
      throw core::UsageError(fmt::format("--{} has no effect with --adapters, which are written in fp32", option));
    }
    for (const std::string& name : export_adapters(reader, out)) print((out / name).string());
    return 0;
  }
  if (reader.manifest().model.contains("sparse_attention")) {
    std::cerr << "warning: layers of this model have sparse attention, which config.json keeps for zrt; other programs "
                 "compute dense attention with these weights\n";
  }
  to.carried = carried_by_run(reader.folder());
  for (const std::string& name : export_hugging_face(reader, out, to)) print((out / name).string());
  if (!has_tokenizer(to.carried)) std::cerr << core::printable("note: " + no_tokenizer_text(reader.manifest())) << "\n";
  return 0;
}

int import_from(const Args& args) {
  po::options_description options("options");
  options.add_options()("out", po::value<std::string>(), "folder of a new run, to train, evaluate or generate from")(
      "set", po::value<std::vector<std::string>>()->composing(),
      "model.key=value: for example a shorter model.sequence than a Llama allows");
  po::variables_map values;
  if (!parse(args, "zrt checkpoint import DIR --out RUN", options, {"DIR"}, values)) return 0;
  if (!values.count("out")) throw core::UsageError("--out is missing; it names the folder of the new run");
  const std::string from = values["DIR"].as<std::string>();
  const fs::path out = values["out"].as<std::string>();
  const core::FolderLock lock(out);
  if (fs::exists(out / "config.resolved.json")) {
    throw core::DataError(
        fmt::format("{}: is the folder of a run, whose config.resolved.json an import would replace; name a new folder",
                    out.string()));
  }
  const auto warn = [](const std::string& text) { std::cerr << "warning: " << text << "\n"; };
  const Reader model = open_plain(from, warn);
  const runtime::Config config =
      runtime::into_folder(runtime::hugging_face_config(model, config_settings(values)), out.string());
  const models::Model made = config.model.make();
  runtime::require_weights(model, made);
  const models::Model* const whole = &made;
  runtime::refuse_left_over(model, {&whole, 1});
  const CopyPlan plan = plan_copy(model);
  std::cerr << fmt::format("importing {} tensors: {} on disk, at most {} of host memory at once\n",
                           model.weights().names().size(), core::format_bytes(plan.disk_bytes),
                           core::format_bytes(plan.host_bytes));
  const CarriedFiles carried = read_carried(model.base().empty() ? fs::path(from) : model.base(), warn);
  const fs::path checkpoint = import_hugging_face(model, runtime::model_json(config), out / "checkpoints");
  write_carried(out / carried_name, carried);
  core::write_durably(out / "config.resolved.json", runtime::resolved_json(config) + "\n");
  print(checkpoint.string());
  return 0;
}

}  // namespace

int checkpoint_command(const Args& args) {
  const std::string verb = args.empty() ? "" : args[0];
  const Args rest(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (verb == "list") return list(rest);
  if (verb == "inspect") return inspect(rest);
  if (verb == "verify") return verify(rest);
  if (verb == "export") return export_to(rest);
  if (verb == "import") return import_from(rest);
  if (verb == "delink") return checkpoint_delink(rest);
  if (verb == "--help" || verb == "-h") {
    std::cout << "usage: " << usage
              << "\n\n  list RUN                      its checkpoints, newest first\n"
                 "  inspect RUN|CHECKPOINT        what one holds\n"
                 "  verify RUN|CHECKPOINT         reads every byte and every value of one or all\n"
                 "  export RUN|CHECKPOINT --out DIR   plain Hugging Face files\n"
                 "  import DIR --out RUN          a Hugging Face model as a run\n"
                 "  delink RUN|CHECKPOINT --out RUN   layers that share parameters as a run of layers of their own\n";
    return 0;
  }
  throw core::UsageError(fmt::format("'{}' is no verb; usage: {}", verb, usage));
}

}  // namespace zrt::tools
