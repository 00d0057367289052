/**
 * Into how many parts ONNX Runtime divides one matrix product, at most.
 *
 * As many as it has threads; four times as many where a processor's cores are of several kinds, so that the fast ones take more
 * (`ThreadPool::DegreeOfParallelism`). It asks the processor; Node cannot, so what may be of several kinds counts as such: every ARM, and
 * Intel's but Xeons.
 */
import { cpus } from 'node:os'

const PARTS_OF_MIXED_CORES = 4

/**
 * @param threads of the session; null: as many as the runtime takes
 * @returns no fewer than the runtime makes
 */
export function productShares(
  threads: number | null,
  { model, arch, cores }: { readonly model: string; readonly arch: string; readonly cores: number } = machine(),
): number {
  const mayBeMixed = arch !== 'x64' || (/intel/i.test(model) && !/xeon/i.test(model))
  return (threads ?? cores) * (mayBeMixed ? PARTS_OF_MIXED_CORES : 1)
}

function machine(): { readonly model: string; readonly arch: string; readonly cores: number } {
  return { model: cpus()[0]?.model ?? '', arch: process.arch, cores: cpus().length }
}
