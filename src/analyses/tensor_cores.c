/* Parts of kernels' names, and names of ops. */

#include "analyses/tensor_cores.h"

#include <string.h>

/* As torch_tb_profiler has them, after NVIDIA's PyProf. */
static const char *const known_parts[] = {
    "h884",
    "s884",
    "h1688",
    "s1688",
    "hmma",
    "i8816",
    "16816",
    "dgrad_1x1_stride_2x2",
    "first_layer_wgrad_kernel",
    "conv1x1",
    "conv2d_c1_k1",
    "direct_group",
    "xmma_implicit_gemm",
    "xmma_sparse_conv",
    "xmma_warp_specialized_implicit_gemm",
    "xmma_gemm",
    "xmma_sparse_gemm",
    "c1688",
};

/* Since Hopper: cuBLAS' own kernels, CUTLASS 3, warp group and tcgen05 instructions;
 * and flash attention, which uses them on every GPU. AMD's matrix cores: Tensile's matrix
 * instructions, and the kernels of Composable Kernel. */
static const char *const newer_parts[] = {
    "nvjet",   "gmma",      "tensorop",  "tensor16x8", "cutlass3x", "cutlass4x",
    "tcgen05", "flash_fwd", "flash_bwd", "_MI16x16",   "_MI32x32",  "xdlops",
};

static const char *const ops[] = {
    "AddbmmBackward",
    "AddmmBackward",
    "AddmvBackward",
    "BmmBackward0",
    "CudnnConvolutionBackward",
    "CudnnConvolutionTransposeBackward",
    "MmBackward",
    "MvBackward",
    "aten::_convolution",
    "aten::_thnn_fused_gru_cell",
    "aten::_thnn_fused_lstm_cell",
    "aten::addbmm",
    "aten::addmm",
    "aten::addmm_",
    "aten::addmv",
    "aten::addr",
    "aten::baddbmm",
    "aten::bmm",
    "aten::chain_matmul",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::conv_tbc",
    "aten::conv_transpose1d",
    "aten::conv_transpose2d",
    "aten::conv_transpose3d",
    "aten::convolution",
    "aten::cudnn_convolution",
    "aten::cudnn_convolution_backward",
    "aten::cudnn_convolution_backward_input",
    "aten::cudnn_convolution_backward_weight",
    "aten::cudnn_convolution_transpose",
    "aten::cudnn_convolution_transpose_backward",
    "aten::cudnn_convolution_transpose_backward_input",
    "aten::cudnn_convolution_transpose_backward_weight",
    "aten::gru_cell",
    "aten::linalg_multi_dot",
    "aten::linear",
    "aten::lstm_cell",
    "aten::matmul",
    "aten::mm",
    "aten::mv",
    "aten::prelu",
    "aten::rnn_relu_cell",
    "aten::rnn_tanh_cell",
};

static bool has_part(const char *name, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}

bool lw_tensor_core_kernel(const char *name, enum lw_compat compat)
{
    return has_part(name, known_parts, sizeof(known_parts) / sizeof(known_parts[0])) ||
           (compat != LW_COMPAT_TB &&
            has_part(name, newer_parts, sizeof(newer_parts) / sizeof(newer_parts[0])));
}

bool lw_tensor_core_op(const char *name)
{
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strcmp(name, ops[i]) == 0)
            return true;
    return false;
}
