/* sides.h - the CUDA sides of kinds of task, a line DSF_GPU_SIDE(NAME) for each
 * dsf_gpu_side_NAME. gpu.h declares them, and module.cpp lists them. */
DSF_GPU_SIDE(embed_forward)
DSF_GPU_SIDE(embed_backward_weight)
DSF_GPU_SIDE(head_loss)
DSF_GPU_SIDE(norm_forward)
DSF_GPU_SIDE(norm_backward_input)
DSF_GPU_SIDE(norm_backward_weight)
DSF_GPU_SIDE(residual_forward)
DSF_GPU_SIDE(residual_backward_weight)
