// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the configurations of AppliedWork for server-side apply: types like those of the API in which every
// field is a pointer, so that only what is set is sent, and becomes the field manager's.
//
//	v1alpha1.AppliedWork("cluster1-work-01").
//		WithSpec(v1alpha1.AppliedWorkSpec().WithWorkNamespace("cluster1").WithWorkName("work-01"))
//
// [ExtractAppliedWork] returns what a field manager has set in an object that was read.
//
// The helpers of package appliedwork do not need this: it is for programs that apply AppliedWorks of their own.
package v1alpha1
