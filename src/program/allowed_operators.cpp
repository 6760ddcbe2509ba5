#include "program/allowed_operators.h"

#include "attend/input_error.h"
#include "program/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

namespace attend::program {
namespace {

constexpr std::string_view kAten = "aten::";

/// ATen operators that torch.export or `export_pt2` may write into programs. Operators that
/// LibTorch tags as core or pointwise are missing here, because `names_in_list` adds them. The list
/// omits operators that are unsafe for untrusted programs or not needed: operators that replace or
/// resize the memory of a tensor (set_, resize_), use sizes or indices without checking them
/// (_reshape_alias, ctc_loss, lu_unpack, linalg_lu_solve, segment_reduce), make sparse or quantized
/// tensors, compute gradients, or belong to one backend (cudnn, mkldnn). The listed operators with
/// "unsafe" in their names check their arguments, too: the word refers to autograd or to compilers.
constexpr std::string_view kNames =
    "__and__ __iand__ __ior__ __irshift__ __or__ _assert_async _assert_scalar "
    "_assert_tensor_metadata _conj _convolution _convolution_mode "
    "_embedding_bag_forward_only _fft_c2c _linalg_check_errors _linalg_det _linalg_eigh "
    "_linalg_slogdet "
    "_linalg_solve_ex _linalg_svd _native_batch_norm_legit_functional _neg_view _pad_circular "
    "_pad_enum _prelu_kernel "
    "_shape_as_tensor _unique _unique2 _unsafe_index _unsafe_index_put "
    "_unsafe_masked_index _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa "
    "_weight_norm absolute adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d addbmm addmv addr adjoint "
    "affine_grid_generator all alpha_dropout aminmax arccos arccosh arcsin arcsinh arctan "
    "arctan2 arctanh argsort argwhere as_strided_scatter atleast_1d atleast_2d atleast_3d "
    "baddbmm bartlett_window batch_norm bernoulli bilinear binary_cross_entropy "
    "binary_cross_entropy_with_logits bincount binomial blackman_window block_diag "
    "broadcast_tensors broadcast_to bucketize cartesian_prod cauchy cdist chain_matmul "
    "chalf channel_shuffle cholesky cholesky_inverse cholesky_solve chunk column_stack "
    "combinations complex concat concatenate conj contiguous conv1d conv2d conv3d "
    "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d corrcoef "
    "cosine_embedding_loss cosine_similarity count_nonzero cov cross cross_entropy_loss "
    "cummax cummin cumprod cumulative_trapezoid det detach detach_copy diag diag_embed "
    "diagflat diagonal_scatter diff dist divide dot dropout dsplit dstack einsum "
    "embedding_bag embedding_renorm empty_like empty_permuted expand_as exponential eye "
    "feature_alpha_dropout feature_dropout fft_fft fft_fft2 fft_fftfreq fft_fftn "
    "fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift "
    "fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 "
    "fft_rfftfreq fft_rfftn fill_diagonal fix flatten fliplr flipud floor_divide "
    "frobenius_norm geometric geqrf ger glu gradient greater greater_equal grid_sampler "
    "grid_sampler_3d group_norm gru gru_cell hamming_window hann_window hardswish "
    "hinge_embedding_loss histc histogram histogramdd hsplit hstack huber_loss im2col "
    "imag index_add index_copy index_fill index_reduce inner instance_norm inverse "
    "isclose isin isreal istft item kaiser_window kl_div kron kthvalue l1_loss layer_norm "
    "less less_equal lift_fresh lift_fresh_copy linalg_cholesky linalg_cholesky_ex "
    "linalg_cond linalg_cross linalg_det linalg_diagonal linalg_eig linalg_eigh "
    "linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex "
    "linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_matmul "
    "linalg_matrix_exp linalg_matrix_norm linalg_matrix_power linalg_matrix_rank "
    "linalg_multi_dot linalg_norm linalg_pinv linalg_qr linalg_slogdet linalg_solve "
    "linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_tensorinv "
    "linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm linear linspace "
    "log_normal log_sigmoid log_softmax logcumsumexp logdet logspace logsumexp lstm "
    "lstm_cell mH mT margin_ranking_loss masked_select matmul matrix_H matrix_exp "
    "matrix_power max_pool1d max_pool1d_with_indices max_pool2d max_pool3d max_unpool2d "
    "max_unpool3d median meshgrid mode moveaxis movedim mse_loss msort multi_margin_loss "
    "multilabel_margin_loss multinomial multiply mv nanmean nanmedian nanquantile nansum "
    "narrow native_channel_shuffle negative new_empty new_full new_ones new_zeros "
    "nll_loss nll_loss2d nll_loss_nd nonzero_numpy nonzero_static norm normal "
    "normal_functional not_equal nuclear_norm numpy_T one_hot ones ones_like orgqr ormqr "
    "outer pad pad_sequence pairwise_distance pdist pinverse pixel_shuffle "
    "pixel_unshuffle poisson poisson_nll_loss polar prelu put qr quantile rand_like "
    "randint randint_like randn_like random range ravel real renorm repeat_interleave "
    "replication_pad1d reshape reshape_as resolve_conj resolve_neg rms_norm rnn_relu "
    "rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 row_stack "
    "scaled_dot_product_attention searchsorted slogdet smooth_l1_loss soft_margin_loss "
    "softmax special_digamma special_erf special_erfc special_erfinv special_exp2 "
    "special_expit special_expm1 special_gammainc special_gammaincc special_gammaln "
    "special_i0 special_log1p special_log_softmax special_logit special_logsumexp "
    "special_multigammaln special_ndtr special_polygamma special_psi special_round "
    "special_sinc special_softmax special_xlogy split stack std std_mean stft subtract "
    "sum_to_size svd swapaxes swapdims sym_constrain_range sym_constrain_range_for_size t "
    "take take_along_dim tensor_split tensordot tile to trace transpose trapezoid trapz "
    "triangular_solve tril tril_indices triplet_margin_loss triu triu_indices type_as "
    "unbind unflatten unfold uniform unique_consecutive unique_dim unique_dim_consecutive "
    "unsafe_chunk unsafe_split unsafe_split_with_sizes upsample_bicubic2d "
    "upsample_linear1d upsample_nearest1d upsample_nearest3d upsample_trilinear3d vander "
    "var_mean vdot view_as view_as_complex view_as_real vsplit vstack zero zeros "
    "zeros_like";

/// Returns an operator's name without the suffix "_" of in-place operators: "add" for "add_".
std::string_view without_in_place(std::string_view name) {
  const bool in_place = name.ends_with('_') && !name.ends_with("__");
  return in_place ? name.substr(0, name.size() - 1) : name;
}

std::set<std::string, std::less<>> names_in_list() {
  std::set<std::string, std::less<>> names;
  std::istringstream words{std::string(kNames)};
  for (std::string word; words >> word;) names.insert(word);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& [name, overload] : dispatcher.getAllOpNames()) {
    if (!name.starts_with(kAten)) continue;
    const auto handle = dispatcher.findSchema({name, overload});
    if (handle && (handle->hasTag(at::Tag::core) || handle->hasTag(at::Tag::pointwise))) {
      names.emplace(without_in_place(std::string_view(name).substr(kAten.size())));
    }
  }
  names.erase("resize");  // tagged as core, but changes the memory of a tensor
  return names;
}

/// Returns true for overloads such as add.out, which write the result to an argument and resize
/// this argument.
bool has_out_argument(const c10::OperatorName& name) {
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle) return false;
  const auto& arguments = handle->schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const auto& argument) { return argument.is_out(); });
}

bool is_always_allowed(const c10::OperatorName& operator_name) {
  static const auto names = names_in_list();
  const auto name = std::string_view(operator_name.name).substr(kAten.size());
  return (names.contains(name) || names.contains(without_in_place(name))) &&
         !has_out_argument(operator_name);
}

}  // namespace

AllowedOperators operators_called_by(const ExportedProgram& program) {
  AllowedOperators allowed;
  for (const auto& node : program.nodes) {
    if (is_operator(node.target)) allowed.names.insert(parse_target(node.target).qualified_name());
  }
  return allowed;
}

void check_allowed(const AllowedOperators& allowed, const c10::OperatorName& operator_name) {
  const auto& name = operator_name.name;
  if (name == "aten::from_file") throw InputError("operators that access files are not allowed");
  const auto space = name.substr(0, name.find("::"));
  if (allowed.namespaces.contains(space) || allowed.names.contains(name)) return;
  if (!name.starts_with(kAten)) {
    throw InputError(
        fmt::format("operators of namespace '{}' are not allowed; to allow them, add '{}' to "
                    "Pt2LoadOptions::namespaces",
                    space, space));
  }
  if (!is_always_allowed(operator_name)) {
    throw InputError(
        fmt::format("the operator '{}' is not one of the operators that are allowed by default; to "
                    "allow it, add '{}' to Pt2LoadOptions::operators",
                    name, name));
  }
}

}  // namespace attend::program
