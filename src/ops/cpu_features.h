#pragma once

namespace attend {

/// Returns true if the processor has the AVX-512 instructions that oneDNN requires for bfloat16 and
/// for packed weights.
inline bool has_avx512() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

/// Returns true if the processor also multiplies and adds integers in one instruction.
inline bool has_avx512_vnni() {
#if defined(__x86_64__) && defined(__GNUC__)
  return has_avx512() && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

}  // namespace attend
