module github.com/openshift-online/ocm-common

go 1.26.0
