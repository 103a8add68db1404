// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package render renders the manifests of an application from its templates, for each of its
// clusters.
//
// A template has these variables and, in addition to the functions of text/template, these
// functions:
//
//	{{ .Cluster.Name }}                          the name of the cluster
//	{{ .Cluster.Labels.region }}                 a label; a missing label is an error. For other characters
//	                                             than letters: {{ index .Cluster.Labels "example.com/region" }}
//	{{ .Application }}                           the name of the application
//	{{ fromSecret "namespace" "name" "key" }}    the value in a Secret of the hub's cluster, decoded
//	{{ fromConfigMap "namespace" "name" "key" }} the value in a ConfigMap
//	{{ … | quote }}                              in quotes, as a YAML string; text that is not UTF-8 is an error
//	{{ … | base64 }}                             in base64, for the data of a Secret or the binaryData of a ConfigMap
//	{{ … | indent 4 }}                           with spaces before each line except the first
//
// A template may output 1 MiB for a cluster, as may each call of a function. It may take 1,000,000
// steps and 10 s. A step is an action, a text between two actions, a function or an argument, in
// each round of a loop. A round takes 10 more steps, the use of another template 100, and the
// result of a function one for each 64 bytes. All templates of an application may take 2,000,000
// steps, and 20,000 more for each cluster. The time to read objects does not count. An application
// that exceeds a limit is refused with an error that names document, template and line.
//
// YAML aliases are allowed. A document with its aliases replaced may have 3 MiB, and an application
// 16 MiB, plus 64 KiB for each of its clusters.
//
// The output is checked as by the API server of a hub with ManifestWorks: apiVersion, kind and
// metadata of each object. Lists, which are no objects, and invalid names of common kinds are also
// refused. The error names document, template, cluster, object and field; and the value, unless a
// template of the application reads a Secret.
//
// Objects of the hub's cluster that were read are watched: when one changes, the application is
// rendered again.
package render
