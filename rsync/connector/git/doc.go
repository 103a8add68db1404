// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package git is a connector for clusters with a GitOps agent, for example Flux or Argo CD. A
// cluster is a folder of a git repository. The connector commits the objects that the engine of
// package rsync applies and deletes, and the agent applies the folder.
//
//	connectors, err := git.New(map[string]git.Repository{
//		"edge+*": {
//			URL:  "https://git.example.com/fleet.git",
//			Path: "clusters",
//			Auth: git.Auth{Username: "rsync", PasswordFile: "/etc/rsync/token"},
//		},
//	}, git.Options{})
//	engine, err := rsync.New(store, connectors, rsync.Options{})
//
// go run ./examples/rsync serve --git URL is a program with such clusters.
//
// Clusters with the same repository and branch share one clone in memory. Each batch is one commit.
// Batches that arrive during a push share the next push, and reads that arrive during a request
// share the next request.
//
// # Layout
//
// Each object is a file with its manifest, byte for byte:
//
//	<path>/<provider>+<cluster>/<namespace, or _cluster>/<kind>.<group>/<name>.yaml
//	clusters/edge+c1/shop/Deployment.apps/web.yaml
//	clusters/edge+c1/shop/ConfigMap/settings.yaml
//	clusters/edge+c1/_cluster/Namespace/shop.yaml
//
// Configure the agent of a cluster with the folder that [Repository.Directory] returns, including
// its subfolders. The connector does not change other files, so you may add a kustomization.yaml
// next to the folders of the namespaces.
//
// Lower-case letters, digits, '-', '.' and '_' of names stay unchanged. Other characters become a
// percent sign and two hexadecimal digits: slashes, colons, a dot at the beginning, and capitals,
// because some file systems ignore case. Kinds keep their capitals. Names of more than 240 bytes
// end with a hash. Names that agents interpret or ignore also get a percent sign. These are
// kustomization, cloudbuild, and names of folders with the extension of a picture or an archive,
// for example .zip. A batch is rejected if the repository has a path that differs only in case, a
// file in place of a folder, or a folder or submodule in place of a file. A file or a link at the
// path of an object counts as the object's file, regardless of its author.
//
// The folder of a cluster without objects has an empty file .gitkeep, because a missing folder is
// an error for agents.
//
// Do not write a Secret to a repository with other readers: use a SealedSecret or an
// ExternalSecret. The agent decides the order of objects in a batch and runs hooks.
//
// # States
//
// An object exists, and is ready, when its file is at the tip of the branch on the server.
// Therefore a dependency on Ready, a wave and a hook wait only for the commit, and Terminated means
// that the files are deleted. [Options].Status can change the states that Get returns, for example
// after a request to the cluster. Without Status, delete policies of hooks work as follows:
//
//   - hook-succeeded is a terminal error, because the hook's file would be deleted before an agent
//     has run the hook,
//   - before-hook-creation deletes the file and commits it again. An agent may see only the last
//     commit. It then runs a hook again only if the manifest has changed,
//   - hook-failed has no effect, because no failure is reported.
//
// # Differences
//
// The connector is a [connector.Differ]: it compares manifests with the files at the tip of the
// branch. It fetches files that differ, within MaxFetchBytes. A server without
// uploadpack.allowReachableSHA1InWant sends all files of the commit.
//
// # Guarantees
//
//   - A batch is committed as a whole or not at all. A batch without changes makes no commit.
//   - A push only adds to the branch, and never forces: the server compares the expected commit.
//     After a concurrent push of another writer, the connector fetches the commits, repeats the
//     batch on top and pushes again, up to [Options].PushAttempts times.
//   - After a lost answer the next attempt finds the commit on the server.
//   - If a server rejects a push with several commits, the connector pushes each commit alone, so a
//     rejected commit affects only its own cluster.
//   - The connector fetches and stores only the listings of folders (git's tree objects), without
//     history. A server with uploadpack.allowFilter sends no files. Other servers also send files,
//     which the connector discards. The cost of an Apply depends on the folders on the path to its
//     files, not on the size of the repository.
//   - No worktree is checked out, no program of the repository is run, no submodule or link is followed.
//
// # Errors
//
// Errors are [connector.Error]s. Their texts have no password, no token and no free text of a
// server.
//
//	unreachable  no connection, a broken one, no answer in time, an expired certificate; HTTP 502,
//	             503, 504
//	retryable    concurrent pushes of others in each attempt; an unreadable file of the
//	             configuration; HTTP 408, 429, 500; a server that reports an unknown error
//	terminal     wrong credentials, access denied, a missing repository or branch, an unverified
//	             server, a repository over MaxFetchBytes; a push that a hook or a protected branch
//	             declines; a manifest that is broken, has a field twice, is of another object, or
//	             too large; a name that is taken in the repository; a hook with hook-succeeded
//	             without Options.Status
//
// Probe requests the list of branches. It also returns nil if the server refuses the request: the
// next call returns the error. All clusters together probe an unreachable server at most four times
// a second.
//
// # Servers
//
// The connector supports git servers over https and ssh, and bare repositories on this machine. The
// user in Auth needs permission to read and to push to the branch. Not supported are signed
// commits, client certificates, git's own configuration, SSH agents, repositories with SHA-256, and
// servers that require multi_ack (Azure DevOps). HTTP proxies are those of the environment.
//
// For each changed folder, an Apply sends the complete listing: about 40 bytes for each object in
// the folder.
package git
