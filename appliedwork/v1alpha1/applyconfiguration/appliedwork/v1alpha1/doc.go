// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the configurations of AppliedWork for server-side apply. Its types are those of
// the API with pointers as fields. So a request has only the fields that are set, and the field
// manager owns only these.
//
//	v1alpha1.AppliedWork("cluster1-work-01").
//		WithSpec(v1alpha1.AppliedWorkSpec().WithWorkNamespace("cluster1").WithWorkName("work-01"))
//
// [ExtractAppliedWork] returns the fields of an object that a field manager owns.
//
// Package appliedwork does not need this package. It is for programs that apply AppliedWorks
// themselves.
package v1alpha1
