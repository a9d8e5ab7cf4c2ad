/* Configurations as people write them for DeepSpeed, one of each kind: what the fuzzer of the reader begins with, besides our
 * own configs/. Written for this purpose. */
#pragma once

static const char *const config_seeds[] = {
    "{\"train_batch_size\": 8, \"steps_per_print\": 2000, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": "
    "0.001, "
    "\"betas\": [0.8, 0.999], \"eps\": 1e-8, \"weight_decay\": 3e-7}}, \"scheduler\": {\"type\": \"WarmupLR\", "
    "\"params\": "
    "{\"warmup_min_lr\": 0, \"warmup_max_lr\": 0.001, \"warmup_num_steps\": 1000}}, \"gradient_clipping\": 1.0, "
    "\"prescale_gradients\": false, \"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"loss_scale_window\": 500, "
    "\"hysteresis\": 2, \"min_loss_scale\": 1, \"initial_scale_power\": 15}, \"wall_clock_breakdown\": false, "
    "\"zero_optimization\": {\"stage\": 0, \"allgather_partitions\": true, \"reduce_scatter\": true, "
    "\"allgather_bucket_size\": 50000000, \"reduce_bucket_size\": 50000000, \"overlap_comm\": true, "
    "\"contiguous_gradients\": true, \"cpu_offload\": false}}",
    "{\n  # what a trainer fills in\n  fp16: {enabled: \"auto\", loss_scale: 0, min_loss_scale: 1},\n  bf16: {enabled: "
    "\"auto\"},\n  zero_optimization: {\n    stage: 3, offload_optimizer: {device: \"cpu\", pin_memory: true}, "
    "offload_param: {device: \"cpu\", pin_memory: true},\n    overlap_comm: true, contiguous_gradients: true, "
    "sub_group_size: "
    "1e9, reduce_bucket_size: \"auto\",\n    stage3_prefetch_bucket_size: \"auto\", "
    "stage3_param_persistence_threshold: "
    "\"auto\", stage3_max_live_parameters: 1e9,\n    stage3_max_reuse_distance: 1e9, "
    "stage3_gather_16bit_weights_on_model_save: true,\n  },\n  gradient_accumulation_steps: \"auto\", "
    "gradient_clipping: "
    "\"auto\", train_batch_size: \"auto\", train_micro_batch_size_per_gpu: \"auto\",\n}",
    "{\"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": "
    "\"nvme\", \"nvme_path\": \"/local_nvme\", \"pin_memory\": true, \"buffer_count\": 4, \"fast_init\": false, "
    "\"pipeline_read\": false, \"pipeline_write\": false, \"ratio\": 0.3}, \"offload_param\": {\"device\": \"nvme\", "
    "\"nvme_path\": \"/local_nvme\", \"buffer_count\": 5, \"buffer_size\": 1e8, \"max_in_cpu\": 1e9}}, \"aio\": "
    "{\"block_size\": 262144, \"queue_depth\": 32, \"thread_count\": 1, \"single_submit\": false, \"overlap_events\": "
    "true}}",
    "{\"train_batch_size\": 16, \"zero_optimization\": true, \"bfloat16\": {\"enabled\": 1}, \"data_types\": "
    "{\"grad_accum_dtype\": \"fp32\"}, \"communication_data_type\": \"fp32\", \"zero_allow_untested_optimizer\": true, "
    "\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 1e-2, \"momentum\": 0.9, \"nesterov\": true}}, "
    "\"scheduler\": "
    "{\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 5000000000, \"warmup_type\": \"linear\"}}}",
    "{/* monitors and logs */ \"train_batch_size\": 4, \"tensorboard\": {\"enabled\": true, \"output_path\": \"out/\", "
    "\"job_name\": \"x\"}, \"wandb\": {\"enabled\": true, \"team\": null}, \"csv_monitor\": {\"enabled\": false}, "
    "\"comms_logger\": {\"enabled\": true, \"verbose\": false, \"prof_all\": false, \"prof_ops\": [\"all_reduce\", "
    "\"all_gather\"]}, \"flops_profiler\": {\"enabled\": true, \"profile_step\": 1, \"module_depth\": -1, "
    "\"top_modules\": 3, "
    "\"detailed\": true, \"output_file\": null}, \"memory_breakdown\": true, \"dump_state\": 1}",
    "{\"train_batch_size\": 32, \"gradient_accumulation_steps\": 4, \"activation_checkpointing\": "
    "{\"partition_activations\": true, \"cpu_checkpointing\": true, \"contiguous_memory_optimization\": false, "
    "\"number_checkpoints\": 2, \"synchronize_checkpoint_boundary\": false, \"profile\": false}, \"scheduler\": "
    "{\"type\": "
    "\"OneCycle\", \"params\": {\"cycle_first_step_size\": 1000, \"cycle_first_stair_count\": 500, "
    "\"cycle_second_step_size\": 1000, \"decay_step_size\": 1000, \"cycle_min_lr\": 0.0001, \"cycle_max_lr\": 0.001, "
    "\"decay_lr_rate\": 0.001, \"cycle_min_mom\": 0.85, \"cycle_max_mom\": 0.99, \"decay_mom_rate\": 0.0}}}",
    "{\"train_batch_size\": 64, \"optimizer\": {\"type\": \"Lion\", \"params\": {\"lr\": \"auto\", \"betas\": "
    "\"auto\"}}, "
    "\"amp\": {\"enabled\": false, \"opt_level\": \"O1\"}, \"elasticity\": {\"enabled\": false, \"micro_batch_sizes\": "
    "[2, 4, "
    "6]}, \"curriculum_learning\": {\"enabled\": false, \"schedule_config\": {\"difficulty_step\": 8}}, "
    "\"compression_training\": {}, \"zero_optimization\": {\"stage\": 2, \"zero_quantized_gradients\": false, "
    "\"zero_hpz_partition_size\": 1, \"model_persistence_threshold\": 9223372036854775807}}",
};
