/**
 * What computes: the processor, or an accelerator by the interface it is reached through.
 */

/** `webgpu` is Dawn, on Vulkan, Metal or Direct3D 12; `cuda` needs NVIDIA's libraries. */
export const DEVICES = ['cpu', 'webgpu', 'cuda'] as const
export type Device = (typeof DEVICES)[number]
