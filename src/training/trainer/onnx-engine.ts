/**
 * Gradients and scores by ONNX Runtime: each engine is one row graph in a session of its own. Knows nothing of optimizers.
 */
import type { GradientEngines } from './gradient-engine.js'
import type { RowModel } from './row-decoder.js'
import { openRowSession, type RowSessionOptions } from './row-session.js'
import { buildScoreGraph, buildTrainGraph } from './train-graph.js'

/** The engines of a base model. Memory: the activations of one batch while an engine runs; weights are mapped. */
export function onnxEngines(model: RowModel, session: RowSessionOptions): GradientEngines {
  return {
    train: (loss, options) => openRowSession(buildTrainGraph(model, loss, options), session),
    score: (adapter) => openRowSession(buildScoreGraph({ ...model, adapter, dropout: undefined }), session),
  }
}
