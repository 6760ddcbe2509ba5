#include "attend/nn/kv_cache.h"
#include "attend/nn/multihead_attention.h"
#include "nn/cached_blocks.h"
#include "support/close.h"
#include "support/throws.h"

#include <c10/core/CPUAllocator.h>

#include <new>

namespace attend {
namespace {

torch::Tensor bools(at::IntArrayRef sizes) {
  return torch::ones(sizes, torch::kBool);
}

/// Contains an attention module of width 8 with 4 query heads and 2 key-value heads, and a cache
/// for 2 sequences of up to 6 tokens.
struct KvCacheErrors : testing::Test {
  static KvCacheOptions options() {
    return KvCacheOptions().num_layers(1).batch_size(2).num_kv_heads(2).head_dim(2).max_seq_len(6);
  }

  auto attention_call(at::IntArrayRef sizes, AttentionArgs args = {}, int64_t layer = 0) {
    args.causal = true;
    return [this, x = torch::zeros(sizes), args, layer] {
      attention->forward(x, args, {.cache = &cache, .layer = layer});
    };
  }
  auto extend_call(int64_t tokens, torch::Tensor valid = {}) {
    return [=, this] { cache.extend(tokens, valid); };
  }
  void feed(int64_t tokens) {
    cache.extend(tokens);
    attention_call({2, tokens, 8})();
  }

  const torch::NoGradGuard no_grad;
  MultiheadAttention attention{MultiheadAttentionOptions(8, 4).num_kv_heads(2)};
  KvCache cache{options()};
};

TEST_F(KvCacheErrors, OptionsOutOfRangeThrow) {
  const auto constructor_call = [](KvCacheOptions options) {
    return [options] { KvCache cache_under_test(options); };
  };
  EXPECT_THAT(constructor_call(options().num_layers(-2)),
              throws<c10::ValueError>("num_layers (-2) must not be negative"));
  EXPECT_THAT(constructor_call(options().batch_size(-2)),
              throws<c10::ValueError>("batch_size (-2) must not be negative"));
  EXPECT_THAT(constructor_call(options().num_kv_heads(0)),
              throws<c10::ValueError>("num_kv_heads (0)"));
  EXPECT_THAT(constructor_call(options().head_dim(-2)), throws<c10::ValueError>("head_dim (-2)"));
  EXPECT_THAT(constructor_call(options().max_seq_len(0)),
              throws<c10::ValueError>("max_seq_len (0)"));
  EXPECT_THAT(constructor_call(options().sliding_window(-1)),
              throws<c10::ValueError>("sliding_window (-1)"));
  EXPECT_THAT(constructor_call(options().sliding_window(7)),
              throws<c10::ValueError>("sliding_window (7) must be at most max_seq_len (6)"));
}

TEST_F(KvCacheErrors, MissingOptionsThrow) {
  const auto missing = [](auto unset) {
    return [unset] {
      auto options = KvCacheErrors::options();
      unset(options);
      KvCache cache_under_test(options);
    };
  };
  EXPECT_THAT(missing([](auto& o) { o.num_layers(-1); }),
              throws<c10::ValueError>("KvCacheOptions: num_layers is required, but not set"));
  EXPECT_THAT(missing([](auto& o) { o.batch_size(-1); }),
              throws<c10::ValueError>("batch_size is required"));
  EXPECT_THAT(missing([](auto& o) { o.num_kv_heads(-1); }),
              throws<c10::ValueError>("num_kv_heads is required"));
  EXPECT_THAT(missing([](auto& o) { o.head_dim(-1); }),
              throws<c10::ValueError>("head_dim is required"));
  EXPECT_THAT(missing([](auto& o) { o.max_seq_len(-1); }),
              throws<c10::ValueError>("max_seq_len is required"));
}

TEST_F(KvCacheErrors, InvalidArgumentsOfExtendThrow) {
  EXPECT_THAT(extend_call(-1), throws<c10::ValueError>("tokens (-1) must not be negative"));
  EXPECT_THAT(extend_call(3, bools({2, 4})),
              throws<c10::ValueError>(
                  "key_mask must have shape (batch_size, tokens) = [2, 3], found [2, 4]"));
  EXPECT_THAT(extend_call(3, bools({3})),
              throws<c10::ValueError>("(batch_size, tokens) = [2, 3], found [3]"));
  EXPECT_THAT(extend_call(3, torch::ones({2, 3})),
              throws<c10::TypeError>("key_mask must be bool (true = token, false = padding), found "
                                     "Float"));
}

TEST_F(KvCacheErrors, MoreTokensThanMaxSeqLenThrow) {
  feed(4);
  EXPECT_THAT(extend_call(3), throws<c10::ValueError>(
                                  "max_seq_len (6) of the KvCache must be at least 7: a sequence "
                                  "has 4 tokens and is extended by 3"));
  // Padding takes no space in the cache.
  auto valid = bools({2, 3});
  valid.select(1, 0).fill_(false);
  EXPECT_NO_THROW(cache.extend(3, valid));
}

TEST_F(KvCacheErrors, TooManyTokensAtOnceForASlidingWindowThrow) {
  KvCache rolling(options().sliding_window(3));
  rolling.extend(6);  // no token has been evicted yet
  attention->forward(torch::zeros({2, 6, 8}), {.causal = true, .sliding_window = 3},
                     {.cache = &rolling});
  EXPECT_THAT(
      [&] { rolling.extend(5); },
      throws<c10::ValueError>("max_seq_len (6) of the KvCache must be at least 7 to extend it by 5 "
                              "tokens with a sliding_window of 3: extend by fewer"));
  EXPECT_NO_THROW(rolling.extend(4));
}

TEST_F(KvCacheErrors, FailedCallsLeaveTheCacheUnchanged) {
  feed(4);
  EXPECT_ANY_THROW(cache.extend(3));
  EXPECT_ANY_THROW(cache.extend(2, bools({2, 3})));
  EXPECT_ANY_THROW(cache.truncate({2, 5}));
  EXPECT_THAT(cache.lengths(), testing::ElementsAre(4, 4));
  EXPECT_NO_THROW(feed(2));
}

/// While it exists, only `left` tensors can be allocated on the CPU.
class LimitedAllocator : public c10::Allocator {
 public:
  explicit LimitedAllocator(int64_t left) : left_(left) { c10::SetCPUAllocator(this, kPriority); }
  ~LimitedAllocator() override { c10::SetCPUAllocator(original_, kPriority); }

  c10::DataPtr allocate(std::size_t size) override {
    if (size > 0 && left_-- == 0) throw std::bad_alloc();
    return original_->allocate(size);
  }
  c10::DeleterFnPtr raw_deleter() const override { return original_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }

 private:
  static constexpr uint8_t kPriority = 100;
  c10::Allocator* original_ = c10::GetCPUAllocator();
  int64_t left_;
};

TEST_F(KvCacheErrors, ExtendWithoutMemoryLeavesTheCacheUnchanged) {
  feed(2);
  const auto key_mask = torch::tensor({{false, true}, {true, true}});
  bool extended = false;
  int64_t failures = 0;
  while (!extended) {
    try {
      const LimitedAllocator limited(failures);
      cache.extend(2, key_mask);
      extended = true;
    } catch (const std::bad_alloc&) {
      ++failures;
      EXPECT_THAT(cache.lengths(), testing::ElementsAre(2, 2));
      EXPECT_TRUE(cache.is_aligned());
    }
  }
  EXPECT_GT(failures, 2);
  EXPECT_THAT(cache.lengths(), testing::ElementsAre(3, 4));
  EXPECT_TRUE(cache.key_positions().equal(torch::tensor({{0, 1, 2, -1}, {0, 1, 2, 3}})));
}

TEST_F(KvCacheErrors, TokensNotMatchingExtendThrow) {
  EXPECT_THAT(
      attention_call({2, 3, 8}),
      throws<c10::ValueError>("layer 0 received 3 tokens, but KvCache::extend was not called"));
  cache.extend(3);
  EXPECT_THAT(
      attention_call({2, 4, 8}),
      throws<c10::ValueError>("layer 0 received 4 tokens, but KvCache::extend was called with 3"));
  EXPECT_THAT(extend_call(1), throws<c10::ValueError>(
                                  "layer 0 of 1 has not appended the 3 tokens of the last extend"));
  attention_call({2, 3, 8})();
  EXPECT_THAT(attention_call({2, 3, 8}),
              throws<c10::ValueError>("but KvCache::extend was not called"));
}

TEST_F(KvCacheErrors, LayerOutOfRangeThrows) {
  cache.extend(3);
  EXPECT_THAT(attention_call({2, 3, 8}, {}, 1),
              throws<c10::ValueError>("layer (1) must be in [0, 1): the KvCache has 1 layers"));
  EXPECT_THAT(attention_call({2, 3, 8}, {}, -1), throws<c10::ValueError>("layer (-1)"));
}

TEST_F(KvCacheErrors, DifferentShapesThrow) {
  cache.extend(3);
  EXPECT_THAT(attention_call({4, 3, 8}),
              throws<c10::ValueError>("the KvCache expects keys and values (B, G, T, D) = "
                                      "[2, 2, 3, 2], found [4, 2, 3, 2]"));
  EXPECT_THAT(attention_call({3, 8}), throws<c10::ValueError>("[2, 2, 3, 2], found [2, 3, 2]"));
  attention = MultiheadAttention(8, 4);
  EXPECT_THAT(attention_call({2, 3, 8}), throws<c10::ValueError>("found [2, 4, 3, 2]"));
  attention = MultiheadAttention(MultiheadAttentionOptions(8, 2).head_dim(6));
  EXPECT_THAT(attention_call({2, 3, 8}), throws<c10::ValueError>("found [2, 2, 3, 6]"));
}

TEST_F(KvCacheErrors, DifferentDtypesThrow) {
  attention->to(torch::kDouble);
  cache.extend(3);
  EXPECT_THAT(
      [&] {
        attention->forward(torch::zeros({2, 3, 8}, torch::kDouble), {.causal = true},
                           {.cache = &cache});
      },
      throws<c10::TypeError>("the KvCache expects keys and values of dtype Float, found Double"));
}

TEST_F(KvCacheErrors, DifferentDtypesThrowOnADeviceWithoutAutocast) {
  KvCache meta(options().device(torch::kMeta));
  meta.extend(3);
  const auto doubles = torch::TensorOptions(torch::kMeta).dtype(torch::kDouble);
  const auto keys = torch::zeros({2, 2, 3, 2}, doubles);
  EXPECT_THAT([&] { meta.append(0, keys, keys); },
              throws<c10::TypeError>("keys and values of dtype Float, found Double"));
}

TEST_F(KvCacheErrors, AttentionThatIsNotCausalThrows) {
  const auto x = torch::zeros({2, 2, 8});
  cache.extend(2);
  EXPECT_THAT([&] { attention->forward(x, {}, {.cache = &cache}); },
              throws<c10::ValueError>("causal must be true with a KvCache"));
  // With a mask, `causal` may be false. The mask can then define another pattern, for example full
  // attention within a prefix.
  EXPECT_NO_THROW(attention->forward(x, {.mask = bools({2, 2})}, {.cache = &cache}));
}

TEST_F(KvCacheErrors, MoreMemoryThanAvailableThrows) {
  EXPECT_THAT(
      [] { KvCache too_large(options().max_seq_len(1'000'000'000'000)); },
      throws<c10::OutOfMemoryError>("the KvCache needs 59604.6 GiB for the keys and values with "
                                    "num_layers (1), batch_size (2), num_kv_heads (2), max_seq_len "
                                    "(1000000000000), head_dim (2) in Float; this machine has"));
  EXPECT_THAT([] { KvCache too_large(options().num_layers(INT64_MAX).head_dim(INT64_MAX)); },
              throws<c10::OutOfMemoryError>("num_layers (9223372036854775807)"));
}

TEST_F(KvCacheErrors, RowsThatDoNotFitIntoMemoryThrow) {
  KvCache large(options().batch_size(1).max_seq_len(1'000'000));
  EXPECT_THAT([&] { large.select_rows(std::vector<int64_t>(100'000, 0)); },
              throws<c10::OutOfMemoryError>("batch_size (100000)"));
  EXPECT_EQ(large.batch_size(), 1);
}

TEST_F(KvCacheErrors, RowsThatDoNotExistThrow) {
  feed(3);
  EXPECT_THAT(
      [&] {
        cache.select_rows({0, 2});
      },
      throws<c10::ValueError>("row (2) must be in [0, 2): the KvCache has 2 sequences"));
  EXPECT_THAT([&] { cache.select_rows({-1}); }, throws<c10::ValueError>("row (-1)"));
  EXPECT_THAT(cache.lengths(), testing::ElementsAre(3, 3));
  cache.extend(1);
  EXPECT_THAT([&] { cache.select_rows({0}); },
              throws<c10::ValueError>("layer 0 of 1 has not appended the 1 tokens"));
}

TEST_F(KvCacheErrors, GradModeIsNotSupported) {
  cache.extend(3);
  const torch::AutoGradMode grad(true);
  EXPECT_THAT(attention_call({2, 3, 8}), throws<c10::ValueError>("use torch::NoGradGuard"));
}

TEST_F(KvCacheErrors, ArgumentsSuppliedByTheCacheThrow) {
  cache.extend(3);
  const auto integers = torch::zeros({2, 3}, torch::kLong);
  EXPECT_THAT(attention_call({2, 3, 8}, {.positions = integers}),
              throws<c10::ValueError>("positions must not be set with a KvCache"));
  EXPECT_THAT(attention_call({2, 3, 8}, {.key_mask = bools({2, 3})}),
              throws<c10::ValueError>("key_mask must not be set with a KvCache"));
  EXPECT_THAT(attention_call({2, 3, 8}, {.segments = integers}),
              throws<c10::ValueError>("segments must not be set with a KvCache"));
}

TEST_F(KvCacheErrors, WrongMaskShapeThrows) {
  feed(2);
  cache.extend(2);
  EXPECT_THAT(attention_call({2, 2, 8}, {.mask = bools({2, 2})}),
              throws<c10::ValueError>("mask [2, 2] must broadcast to the scores [2, 4, 2, 4]"));
  cache.truncate({1, 2});
  cache.extend(2);
  EXPECT_THAT(
      attention_call({2, 2, 8}, {.mask = bools({2, 4})}),
      throws<c10::ValueError>("mask [2, 4] requires a KvCache whose sequences have equal lengths"));
}

TEST_F(KvCacheErrors, AttentionWindowLargerThanTheCachesWindowThrows) {
  KvCache rolling(options().sliding_window(3));
  for (const int64_t window : {0, 4}) {
    const auto message = "the attention's sliding_window (" +
                         std::string(window == 0 ? "0, none" : "4") +
                         ") must be positive and at most the KvCache's sliding_window (3)";
    rolling.clear();
    rolling.extend(2);
    EXPECT_THAT(
        [&] {
          attention->forward(torch::zeros({2, 2, 8}), {.causal = true, .sliding_window = window},
                             {.cache = &rolling});
        },
        throws<c10::ValueError>(message.c_str()));
  }
}

TEST_F(KvCacheErrors, TruncateBeyondAvailableTokensThrows) {
  EXPECT_THAT([&] { cache.truncate({0}); },
              throws<c10::ValueError>("truncate expects 2 lengths, one per sequence, found 1"));
  EXPECT_THAT(
      [&] {
        cache.truncate({0, 1});
      },
      throws<c10::ValueError>(
          "cannot truncate sequence 1 to 1 tokens: the length must be in [0, 0]"));
  KvCache rolling(options().sliding_window(3));
  for (int step = 0; step < 8; ++step) {
    rolling.extend(1);
    attention->forward(torch::zeros({2, 1, 8}), {.causal = true, .sliding_window = 3},
                       {.cache = &rolling});
  }
  EXPECT_NO_THROW(rolling.truncate({8, 8}));
  EXPECT_THAT(
      [&] {
        rolling.truncate({8, 3});
      },
      throws<c10::ValueError>(
          "cannot truncate sequence 1 to 3 tokens: the next token would attend to "
          "the tokens from index 1 on (sliding_window 3), but the tokens "
          "before index 2 have been overwritten"));
  EXPECT_NO_THROW(rolling.truncate({4, 4}));
}

}  // namespace
}  // namespace attend
