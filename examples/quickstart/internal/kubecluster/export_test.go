// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubecluster

// What decides without a cluster, for tests.
var (
	Policies = policies
	FoundIn  = foundIn
)

// Found is what was there before a work.
type Found = found

// AnnotationFound has it.
const AnnotationFound = annotationFound
