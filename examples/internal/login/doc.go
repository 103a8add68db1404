// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package login authenticates the users of an HTTP server, decides what they may do, and logs each
// change.
//
// Users have a client certificate, a bearer token, or the headers X-Remote-User and X-Remote-Group of
// a trusted proxy. The authenticators are those of k8s.io/apiserver, so files and headers are those of
// kube-apiserver: --client-ca-file, --token-auth-file and --requestheader-client-ca-file. A browser
// without a proxy sends a token as the password of HTTP Basic, with any user name. Files are read again
// for each login: a removed token is refused at once.
//
// A user of a group of editors may do everything, a user of a group of viewers only read. Other
// users may do nothing.
package login
