// Mutates valid .pt2 archives, TorchScript archives, ONNX and safetensors files and the JSON files
// of published models and adapters at random, and reads the mutated files. Each read must succeed
// or throw an InputError with a message. It must end within 10 seconds and need little memory.
// Build with the preset asan to check the memory and to find invalid memory accesses.
//
// The environment variable ATTEND_MUTATIONS sets the number of mutated files of each kind. The
// program prints the seed.
#include "attend/export/onnx.h"
#include "attend/export/onnx_contents.h"
#include "attend/export/pt2.h"
#include "attend/export/torchscript.h"
#include "attend/export/torchscript_contents.h"
#include "attend/input_error.h"
#include "attend/io/file_kind.h"
#include "attend/io/safetensors.h"
#include "attend/io/safetensors_header.h"
#include "attend/io/vocabulary.h"
#include "attend/models/language_model.h"
#include "attend/nn/lora.h"
#include "attend/pretrained/peft_adapter.h"
#include "attend/pretrained/pretrained.h"
#include "attend/pt2.h"
#include "io/files.h"
#include "mutated_files/mutations.h"
#include "support/archive.h"
#include "support/higher_order_nodes.h"
#include "support/pretrained_folder.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "train/token_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>

#ifdef __SANITIZE_ADDRESS__
// From <sanitizer/allocator_interface.h>, which some packages of GCC lack.
extern "C" {
size_t __sanitizer_get_allocated_size(const volatile void* pointer);
int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void*, size_t),
                                              void (*freed)(const volatile void*));
}
#endif

namespace attend {
namespace {

using nlohmann::json;

constexpr unsigned kMaxSeconds = 10;
/// Reading a file of n bytes may need at most kBytesPerByte * n + kFixedBytes bytes of memory.
/// Files are read through a buffer of 1 MiB.
constexpr int64_t kBytesPerByte = 10;
constexpr int64_t kFixedBytes = int64_t{2} << 20;

/// Measures heap memory since the last call of start(). `bytes` is allocated minus freed memory.
/// `peak` is the maximum of `bytes`. Both are 0 unless this program is built with AddressSanitizer.
namespace heap {

std::atomic<int64_t> bytes{0};
std::atomic<int64_t> peak{0};

#ifdef __SANITIZE_ADDRESS__
void allocated(const volatile void*, size_t size) {
  const auto now = bytes += static_cast<int64_t>(size);
  if (now > peak) peak = now;
}
void freed(const volatile void* pointer) {
  if (pointer == nullptr) return;
  bytes -= static_cast<int64_t>(__sanitizer_get_allocated_size(pointer));
}
void start() {
  static const bool installed = __sanitizer_install_malloc_and_free_hooks(allocated, freed) != 0;
  ASSERT_TRUE(installed);
  bytes = 0;
  peak = 0;
}
#else
void start() {}
#endif

}  // namespace heap

/// Instructions to repeat the current mutation; printed if reading takes too long or the program
/// crashes.
std::string current_file;

void print_current_file(int signal) {
  const auto ignored = ::write(STDERR_FILENO, current_file.data(), current_file.size());
  static_cast<void>(ignored);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

class MutatedFiles : public testing::Test {
 protected:
  MutatedFiles() : seed_(seed_afresh()) {
    for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) {
      ::signal(signal, print_current_file);
    }
  }

  using Mutate = std::function<void(Random& random, const std::filesystem::path& path)>;
  using Read = std::function<void(const std::filesystem::path& path)>;

  /// Mutates and reads many files.
  void check(const std::string& extension, const Mutate& mutate, const Read& read) {
    const char* text = std::getenv("ATTEND_MUTATIONS");
    const int64_t count = text == nullptr ? 200 : std::atoll(text);
    const auto path = directory / ("mutated" + extension);
    int64_t valid = 0;
    double slowest = 0;
    int64_t fixed_bytes = 0;  // memory beyond kBytesPerByte * file size
    std::map<std::string, int64_t> messages;
    for (int64_t i = 0; i < count; ++i) {
      const auto seed = seed_ + static_cast<uint64_t>(i);
      const auto repeat = fmt::format("repeat with ATTEND_MUTATIONS=1 ATTEND_TEST_SEED={}; {}\n",
                                      seed, path.string());
      current_file = repeat;
      Random random(seed);
      mutate(random, path);
      const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
      const auto start = std::chrono::steady_clock::now();
      heap::start();
      ::alarm(kMaxSeconds);
      try {
        read(path);
        ++valid;
      } catch (const InputError& error) {
        EXPECT_STRNE(error.what(), "") << repeat;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "expected an InputError, found " << error.what() << "\n" << repeat;
      }
      ::alarm(0);
      slowest = std::max(
          slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      const auto excess = heap::peak - kBytesPerByte * bytes;
      fixed_bytes = std::max(fixed_bytes, excess);
      EXPECT_LE(excess, kFixedBytes)
          << "a file of " << bytes << " bytes needs " << heap::peak << " bytes of memory\n"
          << repeat;
    }
    std::cout << fmt::format("{}: {} mutations, {} rejected, {} read; slowest {:.2f} s", extension,
                             count, count - valid, valid, slowest);
#ifdef __SANITIZE_ADDRESS__
    std::cout << fmt::format("; memory at most {} times the file + {} bytes", kBytesPerByte,
                             fixed_bytes);
#endif
    std::cout << std::endl;
    EXPECT_GE(count - valid, count / 100 * 25);
  }

  /// Mutates the archive `whole` and writes it to `path`. Mutates its bytes, its headers, or an
  /// entry whose name contains one of `parts`.
  static void mutate_archive(const std::string& whole, const std::vector<std::string>& parts,
                             Random& random, const std::filesystem::path& path) {
    switch (random() % 4) {
      case 0:
        replace_file(path, mutated_bytes(whole, random));
        break;
      case 1:
        replace_file(path, mutated_zip_headers(whole, random));
        break;
      default:
        replace_file(path, whole);
        write_archive(
            path, mutated_entries(archive_entries(path), parts[random() % parts.size()], random));
    }
  }

  TemporaryDirectory directory;

 private:
  uint64_t seed_;
};

LanguageModel small_model() {
  LanguageModelConfig config;
  config.vocab_size = 7;
  config.stack.num_layers = 1;
  config.stack.embed_dim = 4;
  config.stack.num_heads = 2;
  return LanguageModel(config);
}

const ExportOptions kOptions{.input_names = {"tokens"},
                             .dynamic = {{0, 0, "batch", 1, 4}, {0, 1, "length", 1, 8}},
                             .extra_files = {{"notes.txt", "seven b"}}};

torch::Tensor tokens() {
  return torch::ones({2, 3}, torch::kLong);
}

TEST_F(MutatedFiles, Pt2) {
  const auto original = directory / "model.pt2";
  export_pt2(small_model(), tokens(), original, kOptions);
  auto entries = archive_entries(original);
  auto& model = entries.at("models/model.json");
  auto program = json::parse(model);
  auto& nodes = program["graph_module"]["graph"]["nodes"];
  for (const auto& node : pt2_json::higher_order_nodes("tokens")) nodes.push_back(node);
  program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] =
      R"([1, {"type": "builtins.dict", "context": "[\"logits\"]", "children_spec": [)"
      R"({"type": null, "context": null, "children_spec": []}]}])";
  model = program.dump();
  write_archive(original, entries);
  load_pt2(original);
  const auto whole = read_bytes(original);
  const auto mutate = [&](Random& random, const std::filesystem::path& path) {
    if (random() % 2 == 0) {
      auto changed = entries;
      auto& text = changed.at(random() % 3 == 0 ? "data/weights/model_weights_config.json"
                                                : "models/model.json");
      auto changed_json = json::parse(text);
      const json::json_pointer out_spec("/graph_module/module_call_graph/0/signature/out_spec");
      if (random() % 8 == 0 && changed_json.contains(out_spec)) {
        auto& spec = changed_json[out_spec];
        spec = mutated_json(json::parse(spec.get<std::string>()), random).dump();
      } else {
        changed_json = mutated_json(changed_json, random);
      }
      text = changed_json.dump();
      write_archive(path, changed);
    } else {
      mutate_archive(whole, {"models/", "data/weights/", ""}, random, path);
    }
  };
  check(".pt2", mutate, [](const auto& path) {
    file_kind(path);
    pt2_contents(path);
    load_pt2(path).state_dict();
  });
}

TEST_F(MutatedFiles, TorchScript) {
  const auto original = directory / "model.pt";
  export_torchscript(small_model(), tokens(), original, kOptions);
  const auto whole = read_bytes(original);
  const auto mutate = [&](Random& random, const std::filesystem::path& path) {
    mutate_archive(whole, {"data.pkl", "code/", ""}, random, path);
  };
  check(".pt", mutate, [](const auto& path) { torchscript_contents(path); });
}

TEST_F(MutatedFiles, Onnx) {
  const auto original = directory / "model.onnx";
  export_onnx(small_model(), tokens(), original, kOptions);
  const auto external = directory / "external.onnx";
  const auto report =
      export_onnx(small_model(), tokens(), external, kOptions, {.external_data = true});
  ASSERT_TRUE(std::filesystem::exists(report.external_data));
  const std::array whole{read_bytes(original), read_bytes(external)};
  const auto mutate = [&](Random& random, const std::filesystem::path& path) {
    replace_file(path, mutated_bytes(whole.at(random() % 2), random));
  };
  check(".onnx", mutate, [](const auto& path) {
    file_kind(path);
    onnx_contents(path);
  });
}

/// Returns a safetensors file with other bytes, or with another header.
std::string mutated_safetensors(const std::string& whole, Random& random) {
  if (random() % 3 == 0) return mutated_bytes(whole, random);
  std::size_t header_bytes = 0;
  for (std::size_t i = 8; i-- > 0;)
    header_bytes = header_bytes << 8 | static_cast<unsigned char>(whole[i]);
  const auto header = json::parse(whole.substr(8, header_bytes));
  // The file contains the length of the mutated header, not of the original header.
  const auto text = random() % 4 == 0 ? mutated_bytes(header.dump(), random)
                                      : mutated_json(header, random).dump();
  std::string length;
  for (int shift = 0; shift < 64; shift += 8)
    length += static_cast<char>(text.size() >> shift & 0xFF);
  return length + text + whole.substr(8 + header_bytes);
}

TEST_F(MutatedFiles, Safetensors) {
  const auto original = directory / "model.safetensors";
  auto model = small_model();
  save_safetensors(original, {.tensors = state_dict(model), .metadata = {{"format", "pt"}}});
  const auto whole = read_bytes(original);
  const auto mutate = [&](Random& random, const std::filesystem::path& path) {
    replace_file(path, mutated_safetensors(whole, random));
  };
  check(".safetensors", mutate, [](const auto& path) {
    file_kind(path);
    read_safetensors_header(path);
    load_safetensors(path);
  });
}

TEST_F(MutatedFiles, TokenFiles) {
  const auto original = directory / "tokens.safetensors";
  train::write_token_file(original, Vocabulary::of_characters("abc"), torch::kUInt16,
                          [](const auto& write) {
                            for (int i = 0; i < 10'000; ++i)
                              write(std::string_view("\x01\0\x02\0", 4));
                            return std::map<std::string, std::string>{{"format", "test"}};
                          });
  const auto whole = read_bytes(original);
  const auto data_offset = read_safetensors_header(original).data_offset;
  const auto header = json::parse(whole.substr(8, data_offset - 8));
  const auto mutate = [&](Random& random, const std::filesystem::path& path) {
    if (random() % 3 == 0) {
      replace_file(path, mutated_bytes(whole, random));
      return;
    }
    auto text = mutated_json(header, random).dump();
    text.resize(std::max<std::size_t>(text.size(), data_offset - 8), ' ');
    std::string length;
    for (int shift = 0; shift < 64; shift += 8) {
      length += static_cast<char>(text.size() >> shift & 0xFF);
    }
    replace_file(path, length + text + whole.substr(data_offset));
  };
  check(".tokens", mutate, [](const auto& path) {
    const train::TokenFile file(path);
    [[maybe_unused]] const volatile auto zeros =
        std::ranges::count(file.bytes(), '\0');  // reads all
  });
}

/// Mutates one of the JSON files of a published model.
TEST_F(MutatedFiles, Pretrained) {
  const auto folder = directory / "bert";
  const auto config = small_config("bert");
  const auto weights = weights_of(config);
  write_pretrained(folder, config, weights);
  std::filesystem::rename(folder / "model.safetensors", folder / "weights.safetensors");
  json names;
  for (const auto& [name, tensor] : weights) names[name] = "weights.safetensors";
  std::filesystem::create_directory(folder / "1_Pooling");
  const std::vector<std::pair<std::string, json>> files{
      {"config.json", config},
      {"model.safetensors.index.json", {{"metadata", {{"total_size", 9}}}, {"weight_map", names}}},
      {"generation_config.json", {{"eos_token_id", {1, 2}}, {"temperature", 0.5}}},
      {"modules.json",
       {{{"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
        {{"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}},
        {{"path", "2_Normalize"}, {"type", "sentence_transformers.models.Normalize"}}}},
      {"1_Pooling/config.json",
       {{"word_embedding_dimension", 8}, {"pooling_mode_max_tokens", true}}},
      {"sentence_bert_config.json", {{"max_seq_length", 9}, {"do_lower_case", false}}}};
  for (const auto& [name, content] : files) replace_file(folder / name, content.dump());
  load_pretrained(folder);
  const std::pair<std::string, json>* changed = nullptr;
  const auto mutate = [&](Random& random, const std::filesystem::path& path) {
    changed = &files[random() % files.size()];
    replace_file(path, random() % 4 == 0 ? mutated_bytes(changed->second.dump(), random)
                                         : mutated_json(changed->second, random).dump());
  };
  check(".json", mutate, [&](const auto& path) {
    const auto file = folder / changed->first;
    std::filesystem::copy_file(path, file, std::filesystem::copy_options::overwrite_existing);
    try {
      load_pretrained(folder);
    } catch (const InputError&) {
      replace_file(file, changed->second.dump());
      throw;
    }
    replace_file(file, changed->second.dump());
  });
}

/// Mutates one of the two files of an adapter in the format of PEFT: of a decoder with a tied head,
/// with patterns, and of a classifier, whose head the adapter contains.
TEST_F(MutatedFiles, PeftAdapter) {
  struct Adapter {
    std::filesystem::path folder;
    std::string options;
    std::string weights;
  };
  std::vector<Adapter> adapters;
  const auto add = [&](json config, const std::vector<std::string>& targets, const json& more) {
    const auto base = directory / fmt::format("base{}", adapters.size());
    write_pretrained(base, config, weights_of(config));
    const auto model = load_pretrained(base);
    add_lora(module_of(model.model), {.rank = 2, .targets = targets});
    const auto folder = directory / fmt::format("adapter{}", adapters.size());
    save_peft_adapter(model, folder, {.base = base.string()});
    auto options = json::parse(read_bytes(folder / "adapter_config.json"));
    options.update(more);
    replace_file(folder / "adapter_config.json", options.dump());
    load_pretrained(folder);
    adapters.push_back({folder, options.dump(), read_bytes(folder / "adapter_model.safetensors")});
  };
  auto llama = small_config("llama");
  llama["tie_word_embeddings"] = true;
  add(llama, {"query", "down", "head"},
      {{"target_modules", ".*(q_proj|down_proj)|lm_head"},
       {"rank_pattern", {{"layers\\.0\\..*", 2}}},
       {"alpha_pattern", {{"(lm_)?head", 5.0}}}});
  auto bert = small_config("bert");
  bert["architectures"] = {"BertForSequenceClassification"};
  bert["id2label"] = {{"0", "a"}, {"1", "b"}};
  add(bert, {"qkv"}, {{"exclude_modules", nullptr}});
  Adapter* changed = nullptr;
  const auto mutate = [&](Random& random, const std::filesystem::path& path) {
    changed = &adapters[random() % adapters.size()];
    auto options = changed->options;
    auto weights = changed->weights;
    const bool changes_options = random() % 2 == 0;
    auto& text = changes_options ? options : weights;
    if (!changes_options)
      text = mutated_safetensors(text, random);
    else
      text = random() % 4 == 0 ? mutated_bytes(text, random)
                               : mutated_json(json::parse(text), random).dump();
    replace_file(changed->folder / "adapter_config.json", options);
    replace_file(changed->folder / "adapter_model.safetensors", weights);
    replace_file(path, text);
  };
  check(".adapter", mutate, [&](const auto&) { load_pretrained(changed->folder); });
}

}  // namespace
}  // namespace attend
