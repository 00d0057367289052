/**
 * The words of exports, without the schema library: commands load in a tenth of a second.
 */

/** The forms a checkpoint can be had in. */
export const EXPORT_FORMATS = ['peft', 'merged', 'gguf', 'gguf-adapter'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

/** How exported weights are stored. Default: float16 in GGUF, the base model's own precision for `merged`. */
export const EXPORT_PRECISIONS = ['f32', 'f16', 'bf16', 'q8_0'] as const
export type ExportPrecision = (typeof EXPORT_PRECISIONS)[number]
