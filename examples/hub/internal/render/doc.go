// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package render renders the manifests of an application from its templates, for each of its
// clusters, and watches the objects of the hub's cluster that templates have read. README.md of
// examples/hub describes the variables, the functions and the limits of templates.
package render
